"""The turns of one call: the one that the caller is in, the one that is being answered, and what the client is told.

A turn is open from the caller's first sound until it is committed or abandoned; committed, it is
answered until its reply has ended, and then recorded. When the caller goes on in the first moments
of the answer, the committed turn is opened again, as if it had never been committed.
"""

from contextlib import suppress

from budget.deadline import TurnTimings
from budget.ids import new_id
from transport.leg import (
    CallerHeard,
    CallerStarted,
    CallerStopped,
    CallLeg,
    MessageAdded,
    MessageDeleted,
    TurnMeasured,
)
from voice.answering import Ended
from voice.dialogue import Dialogue, Entry
from voice.observe import Observer
from voice.records import CallRecord, OpenTurn, Outcome


class Turns:
    """Owned by one call's loop."""

    def __init__(self, leg: CallLeg, dialogue: Dialogue, record: CallRecord, observer: Observer) -> None:
        self._leg, self._dialogue = leg, dialogue
        self._record, self._observer = record, observer
        self.open: OpenTurn | None = None
        """The turn that the caller is in."""
        self.answered: OpenTurn | None = None
        """The committed turn whose reply is on its way."""

    async def begin(self, at: float) -> None:
        """A new turn begins at media time `at`."""
        self.open = OpenTurn(new_id("turn"), new_id("item"), at)
        await self._leg.notify(CallerStarted(self.open.item_id, at))

    async def go_on(self, at: float) -> None:
        """The caller goes on at `at` in the open turn, or in the committed one, which is then open again."""
        if self.open is None:
            if self.answered is None:
                await self.begin(at)
                return
            self.open, self.answered = self.answered, None
            self._dialogue.remove(self.open.item_id)
            await self._leg.notify(MessageDeleted(self.open.item_id))
            self.open.item_id = new_id("item")
            await self._leg.notify(CallerStarted(self.open.item_id, at))
        self.open.timings = None

    async def commit(self, speech_end: float) -> None:
        """The open turn ended with the speech at media time `speech_end`: it enters the conversation."""
        turn, self.open = self.open, None
        if turn is None:
            return
        await self.close(Outcome.UNANSWERED, None)  # of keys whose answer the caller spoke into before it was heard
        self.answered = turn
        self._dialogue.add(Entry(turn.item_id, "user", turn.text))
        await self._leg.notify(CallerStopped(turn.item_id, speech_end))
        await self._leg.notify(MessageAdded(turn.item_id, "user", turn.text, spoken=True))
        seconds = max(0.0, speech_end - turn.started)
        self._record.talked += seconds
        await self._leg.notify(CallerHeard(turn.item_id, turn.text, len(turn.text), final=True, seconds=seconds))

    async def typed(self, text: str, at: float, now: float) -> None:
        """The caller did not speak but typed: a turn that ended at media time `at`, which is loop time `now`."""
        timings = TurnTimings(speech_end=now, endpoint=now, asr_started=now, asr_final=now)
        self.answered = turn = OpenTurn(new_id("turn"), new_id("item"), at, timings, text)
        self._dialogue.add(Entry(turn.item_id, "user", text))
        await self._leg.notify(MessageAdded(turn.item_id, "user", text))

    async def abandon(self, speech_end: float) -> None:
        """Nobody said anything in the open turn: it is no turn."""
        if self.open is not None:
            await self._leg.notify(CallerStopped(self.open.item_id, speech_end))
            await self._leg.notify(CallerHeard(self.open.item_id, "", 0, final=True))
        self.open = None

    def audible(self, at: float, target: float, took: float | None) -> None:
        """The answer to the committed turn was first heard at loop time `at`; `target` is what was promised.

        To its first sound it `took` so long (seconds), where it was thought and spoken just now.
        """
        if self.answered is not None and self.answered.timings is not None:
            self._observer.promise.audible(self.answered.timings.slack(at, target), took, at)

    async def close(self, outcome: Outcome, ended: Ended | None) -> None:
        """The answer to the committed turn has ended, or none is wanted: record the turn."""
        turn, self.answered = self.answered, None
        if turn is None:
            return
        if ended is None:
            said, heard, stamps = "", "", {}
        else:
            said, heard, stamps = ended.reply.text.strip(), ended.heard_text, ended.reply.stamps
        measured = turn.close(self._record.call_id, outcome, said, heard, stamps)
        if measured is not None:
            self._record.count(measured)
            self._observer.turn(measured, self._leg.kind, self._record.turns)
            await self._leg.notify(TurnMeasured(measured.record()))

    async def left(self, ended: Ended | None) -> None:
        """The call is over; what its reply was cut off at, if one sounded."""
        if ended is not None:
            self._observer.spoken(ended.reply)
            if self.answered is not None:
                self.answered.cut_at = ended.heard
        with suppress(ConnectionError, RuntimeError):  # whoever should be told is gone
            await self.close(Outcome.HUNG_UP, ended)
