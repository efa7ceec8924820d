"""The running service: takes calls into their places, runs each over its leg, drains them at the end."""

import asyncio
from collections.abc import Callable

import structlog

from budget.admission import Admitted, Asked, Reason, Refused
from budget.governor import Effort
from budget.ids import new_id
from llm.chat import ChatSession
from transport.leg import CallLeg
from voice.call import Call
from voice.config import Settings
from voice.engines import CallEngines, Engines
from voice.observe import Observer
from voice.promise import Promise
from voice.recording import Recorder

log = structlog.get_logger(__name__)

DRAIN = 5.0
"""Seconds that calls get to end when the service stops."""


class CallHold:
    """A place for one call, kept from before the client is answered until the call is over."""

    def __init__(self, promise: Promise, admitted: Admitted, engines: Engines, chat: ChatSession) -> None:
        self._promise, self._admitted = promise, admitted
        self.asked = admitted.asked
        self.engines, self.chat = engines, chat
        self.talked: float | None = None
        """The share of the call that its caller talked, once it is over."""
        self._held = True

    @property
    def effort(self) -> Callable[[], Effort]:
        """How much may be done for the call now."""
        return lambda: self._promise.effort

    async def release(self) -> None:
        """Give the place back; safe to call twice."""
        if self._held:
            self._held = False
            try:
                await self.chat.close()
            finally:
                self._promise.ended(self._admitted, talked=self.talked)


class Service:
    """The running service: its engines and its calls."""

    def __init__(self, settings: Settings, observer: Observer) -> None:
        self.settings, self.observer = settings, observer
        self.engines: Engines | None = None
        """None until every engine is warm."""
        self.promise: Promise | None = None
        """There as soon as the engines are."""
        self.recorder: Recorder | None = None
        """Where the sound of calls is kept; None: nowhere."""
        self._calls: dict[str, Call] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def ready(self) -> bool:
        """Whether calls can be taken."""
        return self.engines is not None

    @property
    def calls(self) -> int:
        """Calls in progress."""
        return len(self._calls)

    def hold(self, asked: Asked) -> CallHold | Refused:
        """Reserve a place for one call at once, or say why there is none."""
        engines, promise = self.engines, self.promise
        if engines is None or promise is None:
            self.observer.refused(asked, Reason.NOT_READY.value)
            return Refused(Reason.NOT_READY, "the service is starting or stopping", 2.0)
        admitted = promise.ask(asked)
        if isinstance(admitted, Refused):
            return admitted
        chat = engines.chat.open()
        if chat is None:  # a session of a call that is just ending is not back yet
            promise.ended(admitted, talked=None)
            return Refused(Reason.CAPACITY, "a place is just being cleared; call again", 1.0)
        return CallHold(promise, admitted, engines, chat)

    async def run(self, hold: CallHold, leg: CallLeg) -> None:
        """Run one call in its place over `leg`, to its end. The place is free afterwards."""
        own = CallEngines(
            hold.engines.recognizer,
            hold.engines.detector(),
            hold.engines.judge,
            hold.chat,
            hold.engines.synthesizer,
            hold.engines.phrases,
            hold.engines.languages,
            hold.effort,
        )
        call_id = new_id("call")
        if self.recorder is not None:
            leg = self.recorder.tap(leg, call_id)
        call = Call(call_id, leg, own, self.settings.call_settings(), self.observer)
        call.record.owner, call.record.profile = hold.asked.key, hold.asked.profile
        self._calls[call.call_id] = call
        self._idle.clear()
        self.observer.call_began(call.record)
        try:
            with structlog.contextvars.bound_contextvars(call_id=call.call_id):
                await call.run()
        except Exception:  # a bug in one call must not reach another: logged with its trace, the call ended
            log.exception("call broke", call_id=call.call_id)
            call.record.reason = call.record.reason or "internal error"
        finally:
            del self._calls[call.call_id]
            if not self._calls:
                self._idle.set()
            lasted = asyncio.get_running_loop().time() - call.record.started
            if call.record.turns:
                hold.talked = call.record.talked / max(lasted, 1e-6)
            await hold.release()
            self.observer.call_ended(call.record, lasted)

    def call(self, call_id: str) -> Call | None:
        """A call in progress."""
        return self._calls.get(call_id)

    async def drain(self) -> None:
        """End all calls, politely and then at once."""
        for call in list(self._calls.values()):
            call.hang_up("service stopping")
        async with asyncio.timeout(DRAIN):
            await self._idle.wait()
