"""Every metric of the service and the set-up of its log: one event a line, with fields."""

import asyncio
import logging
import sys

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary

from budget.admission import Asked
from budget.work import Urgency
from voice.process_metrics import ProcessCollector
from voice.promise_metrics import PromiseMetrics
from voice.records import CallLog, CallRecord, Turn
from voice.reply import Reply

log = structlog.get_logger("halfsecond")

_BUCKETS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0)


def set_up_log(level: str, style: str) -> None:
    """Log to standard error; `style` is "json" or "console". Message texts of calls are never logged."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)


class Observer:
    """Counts, measures and logs, and has calls recorded; one for the process, handed to each call."""

    def __init__(self) -> None:
        self.records: CallLog | None = None
        """Where calls are kept; None: nowhere."""
        self.registry = CollectorRegistry()
        self.registry.register(ProcessCollector())
        self._stage = Histogram(
            "halfsecond_stage_seconds",
            "Time of one stage of a turn, from its start to its first output.",
            ["stage", "transport"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._latency = Histogram(
            "halfsecond_voice_to_voice_seconds",
            "From the caller's last speech sample to the first agent sample sent, answered turns.",
            ["transport"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._turns = Counter("halfsecond_turns", "Turns by outcome.", ["outcome", "transport"], registry=self.registry)
        self._work_metrics()
        self.promise = PromiseMetrics(self.registry)
        self.recent_lag = 0.0
        """Worst lag of the event loop in the last two seconds."""
        self._calls = Counter(
            "halfsecond_calls", "Calls ended, by reason.", ["transport", "reason"], registry=self.registry
        )
        self._refused = Counter("halfsecond_calls_refused", "Calls refused.", ["reason"], registry=self.registry)
        self._lag = Gauge(
            "halfsecond_event_loop_lag_seconds", "How late the event loop ran its last timer.", registry=self.registry
        )
        self._lag_worst = Gauge(
            "halfsecond_event_loop_lag_max_seconds", "The greatest lag of the last minute.", registry=self.registry
        )

    def _work_metrics(self) -> None:
        """What tells wasted work from work that was heard."""
        self._resumed = Counter(
            "halfsecond_replies_resumed",
            "Replies that went on after a sound of the caller that was no interruption.",
            ["transport"],
            registry=self.registry,
        )
        self._worked = Summary(
            "halfsecond_work_seconds",
            "Pieces of engine work, by class: what the capacity planner reckons with.",
            ["engine", "urgency"],
            registry=self.registry,
        )
        self._waited = Summary(
            "halfsecond_work_wait_seconds",
            "How long pieces of engine work waited for their turn.",
            ["engine", "urgency"],
            registry=self.registry,
        )
        self._tokens = Counter(
            "halfsecond_llm_deltas",
            "Pieces of text by the language model, by whether their reply was taken back unheard.",
            ["use"],
            registry=self.registry,
        )
        self._speech = Counter(
            "halfsecond_tts_seconds",
            "Seconds of speech made, by whether its reply was taken back unheard.",
            ["use"],
            registry=self.registry,
        )

    def work_done(self, engine: str, urgency: Urgency, waited: float, worked: float) -> None:
        """An engine did a piece of work. See `budget.work.WorkSeen`."""
        self._worked.labels(engine, urgency.name.lower()).observe(worked)
        self._waited.labels(engine, urgency.name.lower()).observe(waited)

    def turn(self, turn: Turn, transport: str, number: int) -> None:
        """A turn ended, the call's of that number."""
        if self.records is not None:
            self.records.turn(turn, number)
        measured = turn.measured()
        log.info("turn", transport=transport, governor=self.promise.level, **measured)
        self._turns.labels(turn.outcome.value, transport).inc()
        if turn.timings.first_sent is None:
            return
        names = {
            "endpoint": "endpoint_ms",
            "asr": "asr_final_ms",
            "llm": "llm_first_token_ms",
            "tts": "tts_first_audio_ms",
        }
        for stage, name in names.items():
            if (value := measured[name]) is not None:
                self._stage.labels(stage, transport).observe(value / 1000)
        if measured["voice_to_voice_ms"] is not None:
            self._latency.labels(transport).observe(measured["voice_to_voice_ms"] / 1000)

    def taken_back(self, reply: Reply, transport: str) -> None:
        """A prepared answer was dropped unheard."""
        self._turns.labels("taken_back", transport).inc()
        self._work(reply, "dropped")

    def spoken(self, reply: Reply) -> None:
        """A reply that was heard, whole or in part, has ended."""
        self._work(reply, "heard")

    def resumed(self, transport: str) -> None:
        """A reply went on after a false interruption."""
        self._resumed.labels(transport).inc()

    def _work(self, reply: Reply, use: str) -> None:
        self._tokens.labels(use).inc(reply.deltas)
        self._speech.labels(use).inc(reply.seconds_spoken)

    def call_began(self, record: CallRecord) -> None:
        """A call was taken."""
        log.info("call began", call_id=record.call_id, transport=record.kind)
        if self.records is not None:
            self.records.began(record)

    def call_ended(self, record: CallRecord, seconds: float) -> None:
        """A call is over."""
        if self.records is not None:
            self.records.ended(record, seconds)
        self._calls.labels(record.kind, record.reason or "error").inc()
        log.info(
            "call ended",
            call_id=record.call_id,
            transport=record.kind,
            reason=record.reason,
            seconds=round(seconds, 1),
            turns=record.turns,
            outcomes=record.outcomes,
        )

    def refused(self, asked: Asked, reason: str) -> None:
        """A call was not taken."""
        if self.records is not None:
            self.records.refused(asked, reason)
        self._refused.labels(reason).inc()
        log.warning("call refused", reason=reason)

    async def watch_loop(self, every: float = 0.25) -> None:
        """Measure the event loop's lag until cancelled."""
        loop = asyncio.get_running_loop()
        recent: list[float] = []
        while True:
            due = loop.time() + every
            await asyncio.sleep(every)
            lag = max(0.0, loop.time() - due)
            recent = [*recent[-round(60 / every) :], lag]
            self.recent_lag = max(recent[-round(2 / every) :])
            self._lag.set(lag)
            self._lag_worst.set(max(recent))
