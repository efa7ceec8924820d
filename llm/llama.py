"""llama.cpp in the process, through xllamacpp: one slot and its prompt cache for each call.

xllamacpp runs llama.cpp's server in-process and opens an HTTP port on loopback for it. Only the
rendering of prompts goes through that port, since there is no call for it; it is locked with a
random key and its slots, which hold callers' words, are not shown.
"""

import asyncio
import json
import secrets
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import Any

import httpx
import structlog
import xllamacpp

from budget.deadline import Stage
from budget.errors import EngineError, ModelError
from budget.memory import MB, Reservation
from budget.scheduler import QueueFull, Scheduler
from budget.work import Urgency, Work
from llm.ahead import ReadAhead
from llm.chat import ChatSession, Message, ReplyOptions, ToolCall
from llm.gguf_header import shape
from llm.sentence_end import end_probability, judgeable, open_ended, quoted
from llm.tool_text import ToolCallReader, written

log = structlog.get_logger(__name__)

_FIRST_TOKENS = 8
"""Tokens of a first clause, about."""
_DELTAS_AHEAD = 256
"""Deltas that may wait between llama.cpp's thread and the event loop."""
_BATCH = 16
"""Tokens read at once on a CPU, 3.5 ms each: all other calls' tokens wait for them.

Larger ones read no faster: a prompt of 456 tokens in one took 1.5 s, in which nobody else got a token.
"""
_REUSED = 32
"""Tokens in a row from which on what a shorter history still has is moved in the cache, not read again."""
_LIKELIEST = 100
"""How many next tokens are looked at for the end of a sentence."""
_CALLS_A_JUDGE = 2
"""Calls for each slot in which sentences are judged: so many of them are in a turn at once, rarely more."""
_WORTH_READING = 3
"""New words for which a prompt is read ahead on a machine with other work; on a quiet one each is."""
_F16 = 2
"""Bytes of a value in the cache. Keys in 8 bits are no faster to read, and moving them takes twice as long."""
_CUT = "\u2402\u2403"
"""Stands in a rendered prompt where the caller's next word would; nobody says it."""


def _parameters(path: Path, slots: int, context: int, threads: int, gpu_layers: int) -> Any:
    """llama.cpp's settings for so many slots."""
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_parallel = slots
    params.n_ctx = slots * context
    params.n_gpu_layers = gpu_layers
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.cpuparams.poll = 0
    params.cpuparams_batch.poll = 0
    params.cache_ram_mib = 0
    params.n_cache_reuse = _REUSED
    if not gpu_layers:
        params.n_batch = params.n_ubatch = max(_BATCH, slots)
        # On a CPU the fused attention took 25 ms a token at 450 tokens of context, the plain one 14.
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.endpoint_slots = False
    params.endpoint_props = False
    params.verbosity = -1
    return params


def reservation(path: Path, *, context: int, device: str = "cpu") -> Reservation:
    """What the model will hold. On a CPU its weights are there twice: as the file, mapped, and repacked.

    A call has its own cache and its share of those in which sentences are judged; a single call has one whole.
    """
    stored, a_token = path.stat().st_size, shape(path).values * 2 * _F16
    a_call = int(a_token * context * (1 + 1 / _CALLS_A_JUDGE))
    if device == "cpu":
        return Reservation("llama", device, 2 * stored, 5 * MB + a_token * context // 2, a_call)
    return Reservation("llama", device, stored, 600 * MB, a_call)


class LlamaModel:
    """The shared server; `slots` calls at once, each with `context` tokens.

    More `threads` than one rarely pay for a small model: they wait for each other at every layer, and
    on two cores something else always runs (two took twice as long to the first token).
    """

    def __init__(
        self,
        path: Path,
        *,
        slots: int,
        context: int,
        threads: int,
        gpu_layers: int = 0,
        share: Work | None = None,
    ) -> None:
        if not path.is_file():
            raise ModelError(f"no language model at {path}; run `halfsecond models pull`")
        judging = -(-slots // _CALLS_A_JUDGE)
        key = secrets.token_urlsafe(32)
        params = _parameters(path, slots + judging, context, threads, gpu_layers)
        params.api_keys = [key]
        self.context = context
        try:
            self._server = xllamacpp.Server(params)
        except Exception as error:  # raised from C++ without a type of its own
            raise ModelError(f"llama.cpp can't load {path}: {error}") from error
        headers = {"Authorization": f"Bearer {key}"}
        # One connection, kept: rendering takes 2 ms, and a pool would hold two descriptors for each call at once.
        one = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=None)
        self._renderer = httpx.Client(base_url=self._server.listening_address, headers=headers, timeout=5.0, limits=one)
        self._free = list(range(slots))
        self._judging = dict.fromkeys(range(slots, slots + judging), -1)
        """Which call's sentence each of these slots has read last, the one not used for longest first."""
        self._scheduler = Scheduler("llm", workers=2 * slots, limit=4 * slots)
        self._share, self._replies, self._ahead = share or Work(), Work(cores=1), Work(cores=1)

    def open(self) -> ChatSession | None:
        """See `ChatModel`."""
        return LlamaSession(self, self._free.pop(0)) if self._free else None

    async def warm(self) -> None:
        """See `ChatModel`: one short answer, so that weights and buffers are in memory."""
        session = self.open()
        if session is None:
            return
        try:
            async for _ in session.reply([Message("user", "Hello.")], ReplyOptions(max_tokens=2)):
                pass
        finally:
            await session.close()

    async def close(self) -> None:
        """See `ChatModel`."""
        await asyncio.to_thread(self._scheduler.close)
        self._renderer.close()

    @property
    def spare(self) -> bool:
        """Whether a core is free for reading what nobody waits for, and no reply's tokens would wait for it.

        Only one call's words are read ahead at a time: a batch is filled by slot, not by who waits.
        """
        return self._share.room and self._replies.room and self._ahead.room

    @property
    def worth_reading(self) -> int:
        """New words that are worth a reading ahead, which takes a core for 10 ms at least; 0: any change is."""
        return 0 if self._share.quiet() else _WORTH_READING

    def prefill(self, messages: list[Message], slot: int, urgency: Urgency) -> "Future[None]":
        """Read the prompt into a slot's cache on a worker thread. Raises `QueueFull`."""

        def work() -> None:
            self._next(self._open_prompt(messages), slot, urgency)

        return self._scheduler.submit(work, urgency)

    def whole(self, text: str, slot: int, urgency: Urgency) -> "Future[float | None]":
        """The probability that the words are a whole sentence, judged beside a call's slot. Raises `QueueFull`."""

        judge = next((mine for mine, whose in self._judging.items() if whose == slot), next(iter(self._judging)))
        del self._judging[judge]
        self._judging[judge] = slot

        def work() -> float | None:
            answer = self._next(quoted(text), judge, urgency, likeliest=_LIKELIEST)
            return None if answer is None else _whole(answer)

        return self._scheduler.submit(work, urgency)

    def _next(self, prompt: str, slot: int, urgency: Urgency, *, likeliest: int = 0) -> Any:
        """The completion by one token, with the `likeliest` ones in its place; None if the server gave none."""
        answer: Any = None

        def take(chunk: Any) -> bool:
            nonlocal answer
            answer = chunk
            return False

        request = {
            "prompt": prompt,
            "n_predict": 1,
            "n_probs": likeliest,
            "temperature": 0.0,
            "id_slot": slot,
            "cache_prompt": True,
        }
        ahead = self._ahead.running() if urgency is Urgency.SPECULATION else nullcontext()
        with ahead, self._share.piece("llm", Urgency.SPECULATION):
            self._server.handle_completions(json.dumps(request), take)
        return answer

    def _open_prompt(self, messages: list[Message]) -> str:
        """The prompt by the model's own template, up to the last word of the last message."""
        *before, (role, text) = written(messages)
        wire = [*before, (role, open_ended(text) + _CUT)]
        body = {"messages": [{"role": role, "content": text} for role, text in wire]}
        prompt: str = self._renderer.post("/apply-template", json=body).raise_for_status().json()["prompt"]
        return prompt[: prompt.index(_CUT)]

    def generated(self, timings: dict[str, Any]) -> None:
        """Tell what a reply cost, by the server's own clock: the prompt and the first words, and the rest."""
        tokens, seconds = timings.get("predicted_n", 0), timings.get("predicted_ms", 0.0) / 1000
        first = seconds * min(1.0, _FIRST_TOKENS / max(1, tokens))
        self._share.done("llm", Urgency.FIRST_AUDIO, 0.0, timings.get("prompt_ms", 0.0) / 1000 + first)
        self._share.done("llm", Urgency.CONTINUATION, 0.0, seconds - first)

    def release(self, slot: int) -> None:
        """Take a slot back; the most recently used goes to the end, so that caches live longest."""
        self._free.append(slot)

    def submit(
        self, request: dict[str, Any], on_chunk: Callable[[Any], bool], urgency: Urgency, deadline: float
    ) -> "Future[None]":
        """Run one request on a worker thread; `on_chunk` is called there and returns True to stop."""

        def work() -> None:
            with self._share.running(), self._replies.running():
                self._server.handle_chat_completions(json.dumps(request), on_chunk)

        return self._scheduler.submit(work, urgency, deadline=deadline)


class LlamaSession:
    """One call's slot."""

    def __init__(self, model: LlamaModel, slot: int) -> None:
        self._model = model
        self._slot = slot
        self._closed = False
        self._prompt: ReadAhead[None] = ReadAhead()
        self._sentence: ReadAhead[float | None] = ReadAhead()

    async def reply(
        self, messages: list[Message], options: ReplyOptions, *, deadline: float = float("inf")
    ) -> AsyncGenerator[str | ToolCall, None]:
        """See `ChatSession`."""
        offered, reader = bool(messages and messages[0].tools), ToolCallReader()
        async with aclosing(self._words(messages, options, deadline)) as words:
            async for text in words:
                for part in reader.feed(text) if offered else (text,):
                    yield part
        for part in reader.flush():
            yield part

    async def _words(
        self, messages: list[Message], options: ReplyOptions, deadline: float
    ) -> AsyncGenerator[str, None]:
        self._prompt.forget()
        loop = asyncio.get_running_loop()
        chunks: asyncio.Queue[Any] = asyncio.Queue(_DELTAS_AHEAD + 1)
        room = threading.Semaphore(_DELTAS_AHEAD)
        stop = threading.Event()

        def on_chunk(chunk: Any) -> bool:
            room.acquire()
            if not stop.is_set():
                data = json.loads(chunk) if isinstance(chunk, str | bytes) else chunk
                loop.call_soon_threadsafe(chunks.put_nowait, data)
            return stop.is_set()

        request = self._request(messages, options.max_tokens, options.temperature)
        try:
            job = self._model.submit(request, on_chunk, Urgency.FIRST_AUDIO, deadline)
        except QueueFull as error:
            raise EngineError(Stage.LLM, str(error), retryable=True) from error
        job.add_done_callback(lambda done: loop.call_soon_threadsafe(chunks.put_nowait, done))
        try:
            while (chunk := await chunks.get()) is not job:
                room.release()
                if text := _delta(chunk):
                    yield text
                if timings := chunk.get("timings"):
                    log.debug("llama", **timings)
                    self._model.generated(timings)
            if failure := job.exception():
                raise EngineError(Stage.LLM, f"llama.cpp failed: {failure}", retryable=True) from failure
        finally:
            stop.set()
            room.release(_DELTAS_AHEAD)
            job.cancel()

    async def prefill(self, messages: list[Message], *, urgent: bool = False) -> None:
        """See `ChatSession`."""
        if self._closed or not messages or not (urgent or self._model.spare):
            return
        text = open_ended(messages[-1].text)
        key, words = (*messages[:-1], Message(messages[-1].role, text)), len(text.split())

        def start(urgency: Urgency) -> "Future[None]":
            return self._model.prefill(messages, self._slot, urgency)

        await self._prompt.read(key, words, start, urgent=urgent, least=self._model.worth_reading)

    async def whole(self, text: str, *, urgent: bool = False) -> float | None:
        """See `ChatSession`."""
        if self._closed or not judgeable(text) or not (urgent or self._model.spare):
            return None
        key, words = quoted(text), len(text.split())

        def start(urgency: Urgency) -> "Future[float | None]":
            return self._model.whole(text, self._slot, urgency)

        return await self._sentence.read(key, words, start, urgent=urgent, least=self._model.worth_reading)

    async def close(self) -> None:
        """See `ChatSession`."""
        if not self._closed:
            self._closed = True
            self._model.release(self._slot)

    def _request(self, messages: list[Message], tokens: int, temperature: float) -> dict[str, Any]:
        return {
            "messages": [{"role": role, "content": text} for role, text in written(messages)],
            "n_predict": tokens,
            "temperature": temperature,
            "id_slot": self._slot,
            "cache_prompt": True,
            "stream": True,
        }


def _whole(answer: Any) -> float | None:
    """The probability that the prompt of a one-token completion ends a sentence; None if the answer carries none."""
    data = json.loads(answer) if isinstance(answer, str | bytes) else answer
    choices = data.get("choices") or [{}]
    tokens = (choices[0].get("logprobs") or {}).get("content") or []
    if not tokens:  # the model ended the message at once: its end token is not among the completion's
        return 1.0 if choices[0].get("finish_reason") == "stop" else None
    return end_probability((token["token"], token["logprob"]) for token in tokens[0]["top_logprobs"])


def _delta(chunk: dict[str, Any]) -> str:
    """The text in one streamed chunk; raises `EngineError` if it carries an error instead."""
    if "error" in chunk:
        raise EngineError(Stage.LLM, f"llama.cpp: {chunk['error']}", retryable=True)
    choices = chunk.get("choices") or [{}]
    return str((choices[0].get("delta") or {}).get("content") or "")
