"""The agent's side of a call: starts replies, lets them be heard, holds, drops or interrupts them; keeps what was."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from budget.governor import Effort
from budget.ids import new_id
from llm.chat import ChatSession, Message, ReplyOptions
from llm.prompt import fit
from transport.leg import CallLeg, MessageAdded, ReplyCut, ReplyEnded, ReplyStarted, ReplyText
from tts.clauses import first_clause
from tts.speech import Synthesizer
from voice.dialogue import Dialogue, Entry
from voice.playout import AT_DEADLINE, PATIENCE, Playout
from voice.reply import Phrases, Reply, Source, Speaker
from voice.session import CallSettings

_DECIDES = 0.01
"""Seconds that the call gets, once the words are judged, to find that the answer is wanted at once."""


@dataclass(frozen=True)
class ReplyAudible:
    """The first audio of the reply was sent at loop time `at`."""

    reply_id: str
    at: float


@dataclass(frozen=True)
class SentenceJudged:
    """The words that the reply answers are a whole sentence with this probability; None if the model can't tell."""

    reply_id: str
    probability: float | None


@dataclass(frozen=True)
class ReplyFinished:
    """The reply's task ended by itself: everything was heard, or it failed."""

    reply_id: str


@dataclass(frozen=True)
class Ended:
    """A reply as it ended: its text, what was heard of it, and for how long."""

    reply: Reply
    heard_text: str
    heard: float


class Answering:
    """Owns the one reply in progress. Used only by its call's loop."""

    def __init__(
        self,
        leg: CallLeg,
        chat: ChatSession,
        synthesizer: Synthesizer,
        phrases: Phrases,
        dialogue: Dialogue,
        *,
        tasks: asyncio.TaskGroup,
        post: Callable[[SentenceJudged | ReplyAudible | ReplyFinished], None],
        effort: Callable[[], Effort] = Effort,
    ) -> None:
        self._leg, self._chat, self._synthesizer = leg, chat, synthesizer
        self._phrases, self._dialogue = phrases, dialogue
        self._tasks, self._post, self._effort = tasks, post, effort
        self.reply: Reply | None = None
        self.released = False

    def answer(self, settings: CallSettings, upcoming: str, *, deadline: float) -> Reply:
        """Start a reply of the model to the conversation and the words `upcoming`; nothing is heard of it yet."""
        messages = fit(self._dialogue.messages(upcoming), settings.prompt_tokens)
        tokens = max(1, round(settings.max_tokens * self._effort().reply))
        options = ReplyOptions(settings.temperature, tokens)
        source = self._chat.reply(messages, options, deadline=deadline)
        return self._begin(source, settings, read=messages if upcoming else None)

    def say(self, source: Source, settings: CallSettings) -> Reply:
        """Start a reply from any source of text."""
        return self._begin(source, settings)

    @property
    def waiting(self) -> Reply | None:
        """The reply that is prepared but not begun, since it is not yet likely to be wanted."""
        return self.reply if self.reply is not None and not self.reply.wanted.is_set() else None

    def _begin(self, source: Source, settings: CallSettings, *, read: list[Message] | None = None) -> Reply:
        reply_id, item_id = new_id("resp"), new_id("item")
        playout: Playout | None = None
        if settings.audio:

            async def on_first(at: float) -> None:
                self._post(ReplyAudible(reply_id, at))

            async def on_text(text: str) -> None:
                await self._leg.notify(ReplyText(reply_id, item_id, text))

            playout = Playout(
                self._leg,
                self._synthesizer.rate,
                filler=self._phrases.saved(settings.filler, settings.sound) if settings.filler else None,
                patience=AT_DEADLINE if self._effort().filler else PATIENCE,
                on_first=on_first,
                on_text=on_text,
            )
        reply = Reply(reply_id, item_id, playout=playout)
        reply.offered = frozenset(tool.name for tool in settings.tools)
        self.reply, self.released = reply, False
        reply.task = self._tasks.create_task(self._run(reply, source, settings, read))
        return reply

    async def release(self) -> None:
        """Let the reply be heard."""
        if self.reply is None or self.released:
            return
        self.released = True
        reply = self.reply
        reply.wanted.set()
        await self._leg.notify(ReplyStarted(reply.reply_id, reply.item_id, audio=reply.playout is not None))
        reply.gate.set()

    async def hold(self) -> None:
        """Stop the sound of the reply; it may go on from there."""
        if self.reply is not None and self.reply.playout is not None:
            self.reply.playout.hold()  # before anything is awaited, so that not one more frame goes out
            unplayed = await self._leg.flush()
            self.reply.playout.rewind(asyncio.get_running_loop().time(), unplayed)

    def resume(self) -> None:
        """Let the reply on hold go on."""
        if self.reply is not None and self.reply.playout is not None:
            self.reply.playout.resume()

    def asked(self) -> bool:
        """Whether the caller has heard a question in this reply: "yes" is then an answer."""
        if self.reply is None or self.reply.playout is None:
            return False
        heard = self.reply.playout.heard(asyncio.get_running_loop().time())
        return "?" in self.reply.playout.heard_text(heard)

    async def prefill(self, settings: CallSettings, upcoming: str) -> None:
        """Put the conversation and the words so far into the model's cache, if no reply is running."""
        if self.reply is None:
            await self._chat.prefill(fit(self._dialogue.messages(upcoming), settings.prompt_tokens))
            if upcoming and settings.rule.by_meaning:
                await self._chat.whole(upcoming)

    async def drop(self) -> Reply | None:
        """Throw the reply away as if it had never been. Returns it, if there was one."""
        reply, self.reply = self.reply, None
        if reply is None:
            return None
        if reply.task is not None:
            reply.task.cancel()  # before anything is awaited, so that not one more frame goes out
        if self.released:
            await self._leg.flush()
        await _gone(reply)
        if self.released:
            await self._end(reply, "", "cancelled", "turn_detected")
        return reply

    async def interrupt(self, reason: str, *, flush: bool = True, heard: float | None = None) -> Ended | None:
        """Stop the reply; what was heard of it stays in the conversation. None if there was no reply.

        `heard` (seconds) overrides the playout's own estimate where the client knows better.
        """
        reply, self.reply = self.reply, None
        if reply is None:
            return None
        if reply.task is not None:
            reply.task.cancel()  # before anything is awaited, so that not one more frame goes out
        unplayed = await self._leg.flush() if flush else 0.0
        now = asyncio.get_running_loop().time()
        await _gone(reply)
        text = reply.text.strip()
        if reply.playout is not None:
            heard = reply.playout.heard(now, unplayed) if heard is None else heard
            text = reply.playout.heard_text(heard)
        await self._keep(reply, text)
        if self.released:
            await self._leg.notify(ReplyCut(reply.item_id, heard or 0.0, text))
            await self._end(reply, reply.text.strip(), "cancelled", reason)
        return Ended(reply, text, heard or 0.0)

    def left(self) -> Ended | None:
        """The call is over: what was heard of the reply until now. Nobody is there to be told."""
        reply, self.reply = self.reply, None
        if reply is None or not self.released:
            return None
        if reply.playout is None:
            return Ended(reply, reply.text.strip(), 0.0)
        heard = reply.playout.heard(asyncio.get_running_loop().time())
        return Ended(reply, reply.playout.heard_text(heard), heard)

    async def finish(self) -> Ended | None:
        """The reply's task ended by itself: put it into the conversation and tell the client."""
        reply, self.reply = self.reply, None
        if reply is None:
            return None
        text = reply.text.strip()
        await self._keep(reply, text)
        if self.released:
            if reply.error is not None:
                await self._end(reply, text, "failed", reply.error.code)
            else:
                await self._end(reply, text, "completed", "")
        return Ended(reply, text, reply.seconds_spoken)

    async def _run(self, reply: Reply, source: Source, settings: CallSettings, read: list[Message] | None) -> None:
        """Run the reply. Until it is likely to be wanted, the prompt to `read` is judged and read ahead."""
        if read is not None:
            ahead = self._tasks.create_task(self._read_ahead(reply, settings, read))
            try:
                await reply.wanted.wait()
            except asyncio.CancelledError:
                ahead.cancel()
                raise
        if reply.playout is not None:
            speaker = Speaker(self._synthesizer, settings.sound, self._phrases, settings.apology)
            await reply.speak(source, speaker, first_clause(self._effort().first_clause))
        else:
            await reply.write(source, lambda text: self._leg.notify(ReplyText(reply.reply_id, reply.item_id, text)))
        self._post(ReplyFinished(reply.reply_id))

    async def _read_ahead(self, reply: Reply, settings: CallSettings, read: list[Message]) -> None:
        """Judge the caller's words at the end of the prompt, then read it, unless the reply itself is about to."""
        whole = await self._chat.whole(read[-1].text, urgent=True) if settings.rule.by_meaning else None
        self._post(SentenceJudged(reply.reply_id, whole))
        with suppress(TimeoutError):
            async with asyncio.timeout(_DECIDES):
                await reply.wanted.wait()
                return
        await self._chat.prefill(read, urgent=True)

    async def _keep(self, reply: Reply, text: str) -> None:
        if not text:
            return
        clauses = reply.playout.buffer.clauses() if reply.playout is not None else ()
        self._dialogue.add(Entry(reply.item_id, "assistant", text, clauses))
        await self._leg.notify(MessageAdded(reply.item_id, "assistant", text, spoken=bool(clauses)))

    async def _end(
        self, reply: Reply, text: str, outcome: Literal["completed", "cancelled", "failed"], reason: str
    ) -> None:
        spoken = reply.playout is not None
        calls = reply.theirs if outcome == "completed" else ()
        ended = ReplyEnded(reply.reply_id, reply.item_id, text, outcome, reason, spoken, reply.deltas, calls)
        await self._leg.notify(ended)


async def _gone(reply: Reply) -> None:
    """Wait until the cancelled reply's task has closed its engines."""
    if reply.task is not None:
        with suppress(asyncio.CancelledError):
            await reply.task
