"""Call records in a database: written as calls go, by a thread of its own; read and deleted for the API.

SQLite (write-ahead log) or whatever SQLAlchemy knows by URL. Each turn is committed as it ends, so a process
that is killed loses the turn in the air and nothing else. Calls that its end cut off are closed at the next start.
"""

import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import sleep
from typing import Any

import structlog
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    DateTime,
    Engine,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    delete,
    event,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from budget.admission import Asked
from budget.errors import ConfigError
from budget.ids import new_id
from voice.records import CallRecord, Turn

log = structlog.get_logger(__name__)

_TRIES, _BETWEEN = 5, 0.5
"""A write that fails is tried so often, in so many seconds each: the database may be restarting."""
_MOST_WAITING = 10_000
"""Writes that may wait for a database that is away; what comes on top is lost, and said so."""
_REFUSALS_WAITING = 500
"""With so many waiting, refusals are counted in the metrics only."""

_schema = MetaData()
calls = Table(
    "calls",
    _schema,
    Column("id", String(40), primary_key=True),
    Column("transport", String(20), nullable=False),
    Column("profile", String(20), nullable=False),
    Column("owner", String(80), nullable=False, comment="a hash of the client's key, or its address"),
    Column("caller", String(200), nullable=False),
    Column("called", String(200), nullable=False),
    Column("about", JSON, nullable=False, comment="what the protocol told of the call"),
    Column("began", DateTime(timezone=True), nullable=False, index=True),
    Column("ended", DateTime(timezone=True)),
    Column("seconds", Float),
    Column("talked", Float, comment="seconds that the caller spoke in turns"),
    Column("reason", String(200), comment="why it ended, or was refused"),
    Column("refused", Boolean, nullable=False),
    Column("service", String(200), nullable=False, index=True, comment="the process that took it: host and id"),
)
turns = Table(
    "turns",
    _schema,
    Column("id", String(40), primary_key=True),
    Column("call_id", String(40), ForeignKey("calls.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("number", Integer, nullable=False),
    Column("at", Float, nullable=False, comment="seconds into the call at which the caller began to speak"),
    Column("closed", DateTime(timezone=True), nullable=False),
    Column("caller", Text, nullable=False),
    Column("said", Text, nullable=False),
    Column("heard", Text, nullable=False, comment="what of it was played"),
    Column("outcome", String(20), nullable=False),
    Column("cut_at", Float, comment="seconds of the answer that were heard, where it was cut off"),
    Column("timings", JSON, nullable=False, comment="milliseconds"),
)


class CallStore:
    """One for the process. The `CallLog` of the service; reading methods block, for a thread."""

    def __init__(self, url: str, *, texts: bool = True) -> None:
        """Open the database and make its tables. Raises `ConfigError` if that can't be done."""
        self._texts = texts
        self._service = f"{socket.gethostname()}:{os.getpid()}"
        self._waiting = 0
        self._lock = threading.Lock()
        self._refusals: list[dict[str, Any]] = []
        try:
            self._engine = _engine(url)
            _schema.create_all(self._engine)
        except (SQLAlchemyError, ImportError, OSError) as error:
            reason = str(getattr(error, "orig", None) or error).splitlines()[0]
            raise ConfigError(f"call records can't be kept: {reason}; set records.url, or records.days to 0") from error
        self._writer = ThreadPoolExecutor(1, "records")
        self._close_left()

    # ---- as calls go (from the event loop; return at once) -----------------------------------

    def began(self, call: CallRecord) -> None:
        """See `CallLog`."""
        told = call.about
        row = {
            "id": call.call_id,
            "transport": call.kind,
            "profile": call.profile,
            "owner": call.owner[:80],
            "caller": told.get("from", "")[:200],
            "called": told.get("to", "")[:200],
            "about": dict(told),
            "began": _now(),
            "refused": False,
            "service": self._service,
        }
        self._write(lambda connection: connection.execute(insert(calls).values(row)))

    def turn(self, turn: Turn, number: int) -> None:
        """See `CallLog`."""
        measured = turn.measured()
        row = {
            "id": turn.id,
            "call_id": turn.call_id,
            "number": number,
            "at": turn.at,
            "closed": _now(),
            "caller": turn.caller if self._texts else "",
            "said": turn.said if self._texts else "",
            "heard": turn.heard_by_caller if self._texts else "",
            "outcome": turn.outcome.value,
            "cut_at": turn.cut_at,
            "timings": {name: measured[name] for name in measured if name.endswith("_ms") or name == "stages"},
        }
        self._write(lambda connection: connection.execute(insert(turns).values(row)))

    def ended(self, call: CallRecord, seconds: float) -> None:
        """See `CallLog`."""
        row = {"ended": _now(), "seconds": seconds, "talked": call.talked, "reason": (call.reason or "error")[:200]}
        self._write(lambda connection: connection.execute(update(calls).where(calls.c.id == call.call_id).values(row)))

    def refused(self, asked: Asked, reason: str) -> None:
        """See `CallLog`."""
        if len(self._refusals) >= _REFUSALS_WAITING:
            return
        row = {
            "id": new_id("call"),
            "transport": asked.transport,
            "profile": asked.profile,
            "owner": asked.key[:80],
            "caller": "",
            "called": "",
            "about": {},
            "began": (now := _now()),
            "ended": now,
            "seconds": 0.0,
            "talked": 0.0,
            "reason": reason,
            "refused": True,
            "service": self._service,
        }
        with self._lock:
            self._refusals.append(row)
            first = len(self._refusals) == 1
        # the others go with the first: a crowd that is refused is written as one
        if first and not self._write(self._refusals_writer()):
            self._refusals.clear()  # lost as any other record is, and the next one is written again

    def close(self) -> None:
        """Write what waits and close the database."""
        self._writer.shutdown()
        self._engine.dispose()

    # ---- for the API (block: run them in a thread) --------------------------------------------

    def page(self, *, limit: int, before: str = "") -> list[dict[str, Any]]:
        """The newest calls, without their turns; those older than the call `before`."""
        count = select(func.count()).where(turns.c.call_id == calls.c.id).scalar_subquery()
        query = select(calls, count.label("turns")).order_by(calls.c.began.desc(), calls.c.id.desc()).limit(limit)
        with self._engine.connect() as connection:
            if before:
                edge = connection.execute(select(calls.c.began).where(calls.c.id == before)).scalar()
                if edge is None:
                    return []
                older = (calls.c.began < edge) | ((calls.c.began == edge) & (calls.c.id < before))
                query = query.where(older)
            return [_call(row) for row in connection.execute(query).mappings()]

    def call(self, call_id: str) -> dict[str, Any] | None:
        """One call with its turns; None if there is none."""
        with self._engine.connect() as connection:
            found = connection.execute(select(calls).where(calls.c.id == call_id)).mappings().first()
            if found is None:
                return None
            spoken = connection.execute(select(turns).where(turns.c.call_id == call_id).order_by(turns.c.number))
            return {**_call(found), "turns": [_turn(row) for row in spoken.mappings()]}

    def delete(self, call_id: str) -> bool:
        """Delete one call with its turns; False if there is none."""
        with self._engine.begin() as connection:
            connection.execute(delete(turns).where(turns.c.call_id == call_id))
            return bool(connection.execute(delete(calls).where(calls.c.id == call_id)).rowcount)

    def forget(self, days: float) -> Sequence[str]:
        """Delete the calls that began longer ago; returns their ids."""
        edge = _now() - timedelta(days=days)
        with self._engine.begin() as connection:
            old = connection.execute(select(calls.c.id).where(calls.c.began < edge)).scalars().all()
            for i in range(0, len(old), 500):
                some = old[i : i + 500]
                connection.execute(delete(turns).where(turns.c.call_id.in_(some)))
                connection.execute(delete(calls).where(calls.c.id.in_(some)))
            return old

    # ---- writing -------------------------------------------------------------------------------

    def _write(self, work: Callable[[Connection], object]) -> bool:
        """Have this written by the thread; False if too much waits for it already."""
        with self._lock:
            if self._waiting >= _MOST_WAITING:
                log.error("call record lost", reason="the database does not keep up")
                return False
            self._waiting += 1
        self._writer.submit(self._written, work)
        return True

    def _refusals_writer(self) -> Callable[[Connection], object]:
        """Writes all refusals that wait by then; those that it took it keeps until it succeeds."""
        rows: list[dict[str, Any]] = []

        def write(connection: Connection) -> None:
            with self._lock:
                rows.extend(self._refusals)
                self._refusals.clear()
            connection.execute(insert(calls), rows)

        return write

    def _written(self, work: Callable[[Connection], object]) -> None:
        try:
            for tries in range(1, _TRIES + 1):
                try:
                    with self._engine.begin() as connection:
                        work(connection)
                    return
                except SQLAlchemyError as error:
                    reason = str(getattr(error, "orig", None) or error).splitlines()[0]
                    if tries == _TRIES:
                        log.error("call record lost", reason=reason)
                    else:
                        sleep(_BETWEEN)
        finally:
            with self._lock:
                self._waiting -= 1

    def _close_left(self) -> None:
        """Close the calls of processes of this machine that are no more: they ended with their last turn at latest."""
        with self._engine.begin() as connection:
            open_calls = calls.c.ended.is_(None)
            names = connection.execute(select(calls.c.service).where(open_calls).distinct()).scalars().all()
            gone = [name for name in names if self._is_gone(name)]
            for row in connection.execute(select(calls).where(open_calls, calls.c.service.in_(gone))).mappings().all():
                last = connection.execute(select(func.max(turns.c.closed)).where(turns.c.call_id == row["id"])).scalar()
                ended = _utc(last) or _utc(row["began"]) or _now()
                seconds = (ended - (_utc(row["began"]) or ended)).total_seconds()
                values = {"ended": ended, "seconds": seconds, "reason": "service died"}
                connection.execute(update(calls).where(calls.c.id == row["id"]).values(values))

    def _is_gone(self, service: str) -> bool:
        host, _, process = service.rpartition(":")
        if host != socket.gethostname():
            return False
        if service == self._service:  # of a process before this one that had the same id
            return True
        with suppress(PermissionError):  # it is another user's, and alive
            try:
                os.kill(int(process), 0)
            except (ProcessLookupError, ValueError):
                return True
        return False


def _engine(url: str) -> Engine:
    if not url.startswith("sqlite"):
        return create_engine(url, pool_pre_ping=True)
    engine = create_engine(url, connect_args={"timeout": 10.0})

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _: object) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")  # a killed process loses nothing, a power cut the last moment
        connection.execute("PRAGMA foreign_keys = ON")

    return engine


def _call(row: Mapping[Any, Any]) -> dict[str, Any]:
    shown = {name: row[name] for name in row if name not in ("service", "caller", "called")}
    times = {name: None if row[name] is None else _iso(row[name]) for name in ("began", "ended")}
    return {**shown, **times, "from": row["caller"], "to": row["called"]}


def _turn(row: Mapping[Any, Any]) -> dict[str, Any]:
    shown = {name: row[name] for name in row if name not in ("call_id", "number")}
    return {**shown, "closed": _iso(row["closed"])}


def _now() -> datetime:
    return datetime.now(UTC)


def _utc(at: datetime | None) -> datetime | None:
    """SQLite keeps no time zone: what it gives back is UTC."""
    return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at


def _iso(at: datetime) -> str:
    return (_utc(at) or at).astimezone(UTC).isoformat(timespec="milliseconds")
