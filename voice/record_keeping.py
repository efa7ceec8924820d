"""Keeps call records while the service runs: opens their place, forgets what is too old."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog
from sqlalchemy.exc import SQLAlchemyError

from voice.call_store import CallStore
from voice.config import RecordsConfig
from voice.recording import Recorder

log = structlog.get_logger(__name__)

_EVERY = 3600.0
"""Seconds between two looks for what is too old."""


@dataclass(frozen=True)
class Records:
    """Where calls are kept, as rows and, if that is switched on, as sound."""

    store: CallStore
    folder: Path
    """Recordings: `ID.ogg`, also of the time before they were switched off."""
    recorder: Recorder | None

    def recording(self, call_id: str) -> Path | None:
        """The call's recording, if there is one. `call_id` must be that of a call in the store."""
        file = self.folder / f"{call_id}.ogg"
        return file if file.is_file() else None

    def delete(self, call_id: str) -> bool:
        """Delete a call and its recording; False if there is no such call. Blocks."""
        if not self.store.delete(call_id):
            return False
        (self.folder / f"{call_id}.ogg").unlink(missing_ok=True)
        return True

    def forget(self, days: float) -> int:
        """Delete the calls that are older, and their recordings; how many. Blocks."""
        old = self.store.forget(days)
        for call_id in old:
            (self.folder / f"{call_id}.ogg").unlink(missing_ok=True)
        return len(old)


@asynccontextmanager
async def records(config: RecordsConfig) -> AsyncIterator[Records | None]:
    """The place for call records, or None if none are kept. Raises `ConfigError` if it can't be opened."""
    if not config.days:
        yield None
        return
    kept = await asyncio.to_thread(_open, config)
    try:
        async with asyncio.TaskGroup() as tasks:
            forgetting = tasks.create_task(_forget(kept, config.days))
            yield kept
            forgetting.cancel()
    finally:
        if kept.recorder is not None:
            await asyncio.to_thread(kept.recorder.close)
        await asyncio.to_thread(kept.store.close)


def _open(config: RecordsConfig) -> Records:
    folder = config.directory.expanduser()
    url = config.url.get_secret_value()
    if not url:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        url = f"sqlite:///{folder / 'calls.sqlite'}"
    audio = folder / "recordings"
    return Records(CallStore(url, texts=config.texts), audio, Recorder(audio) if config.audio else None)


async def _forget(kept: Records, days: float) -> None:
    while True:
        try:
            if count := await asyncio.to_thread(kept.forget, days):
                log.info("calls forgotten", calls=count, older_than_days=days)
        except (SQLAlchemyError, OSError) as error:
            log.warning("old calls could not be deleted", error=str(error))
        await asyncio.sleep(_EVERY)
