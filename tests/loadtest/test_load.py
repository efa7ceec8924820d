"""The load tester against a server that answers after a known time, cuts in, stalls, refuses or is silent."""

import argparse
import asyncio
import base64
import json
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soundfile
from websockets.asyncio.server import ServerConnection, serve

from loadtest import command
from loadtest.arrivals import together
from loadtest.crew import Aim, hold
from loadtest.dialogue import CallResult, Turn
from loadtest.load import Load, Target, pooled
from loadtest.script import Script
from loadtest.telephone import FRAME, RATE, decode, encode

TONE = (0.3 * np.sin(2 * np.pi * 400 * np.arange(RATE) / RATE)).astype(np.float32)
AT_ONCE = Script("test", seconds=(0.9, 1.1), think=(0.5, 0.6))


LASTS = 100
"""Frames of an answer that is sent at real time (2 s)."""


def spoken(pcm: np.ndarray) -> dict:
    return {"event": "media", "media": {"payload": base64.b64encode(encode(pcm)).decode()}}


@dataclass(frozen=True)
class Behaviour:
    """How the server treats its callers (seconds)."""

    delay: float = 0.3
    answers: bool = True
    cuts_in_after: float = float("inf")
    stall: float = 0.0
    refuses: bool = False
    drops: int = 0
    """Every so-many-th frame of the agent's audio is not sent; frames then go at real time, as lines send them."""


@asynccontextmanager
async def server(behaviour: Behaviour) -> AsyncGenerator[str, None]:
    async def answer(socket: ServerConnection, ended: float) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(ended + behaviour.delay - loop.time())
        if behaviour.drops:
            began = loop.time()
            for i in range(1, LASTS + 1):
                await asyncio.sleep(began + i * 0.02 - loop.time())
                if i % behaviour.drops:
                    await socket.send(json.dumps(spoken(TONE[:FRAME])))
            return
        for half in (TONE[: RATE // 5], TONE[: RATE // 5]):
            for i in range(0, len(half), FRAME):
                await socket.send(json.dumps(spoken(half[i : i + FRAME])))
            await asyncio.sleep(len(half) / RATE + behaviour.stall if behaviour.stall else 0)

    async def handle(socket: ServerConnection) -> None:
        loop = asyncio.get_running_loop()
        talked, pending = 0.0, False
        last = began = loop.time()
        async with asyncio.TaskGroup() as tasks:
            async for message in socket:
                event = json.loads(message)
                if event["event"] != "media":
                    continue
                now = loop.time()
                if float(np.abs(decode(base64.b64decode(event["media"]["payload"]))).max()) > 0.1:
                    began = now if not pending else began
                    last, pending = now, True
                    talked = now - began
                    if talked > behaviour.cuts_in_after:
                        began = float("inf")
                        tasks.create_task(answer(socket, now - behaviour.delay))
                elif pending:
                    pending = False
                    if behaviour.answers:
                        tasks.create_task(answer(socket, last))

    def refuse(connection: ServerConnection, request: object) -> object:
        if not behaviour.refuses:
            return None
        response = connection.respond(503, "all places are taken\n")
        response.headers["Retry-After"] = "7"
        return response

    async with serve(handle, "127.0.0.1", 0, process_request=refuse) as running:  # type: ignore[arg-type]
        yield f"ws://127.0.0.1:{running.sockets[0].getsockname()[1]}"


@pytest.fixture
def tones(tmp_path: Path) -> Path:
    """A folder with one recording: a second of a tone."""
    soundfile.write(tmp_path / "tone.wav", TONE, RATE)
    entry = {"file": "tone.wav", "language": "en", "text": "beep", "seconds": 1.0}
    (tmp_path / "manifest.jsonl").write_text(json.dumps(entry) + "\n")
    return tmp_path


async def measured(
    behaviour: Behaviour,
    tones: Path,
    *,
    calls: int = 1,
    seconds: float = 2.0,
    script: Script = AT_ONCE,
    workers: int = 1,
) -> Load:
    async with server(behaviour) as address:
        plan = together(calls, seconds, [script], seed=0, stagger=0.1)
        return await hold(Aim(address, recordings=tones, workers=workers), plan)


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_known_delay_is_what_it_reports(tones: Path, workers: int) -> None:
    load = await measured(Behaviour(delay=0.4), tones, calls=3, seconds=5.0, workers=workers)
    assert [result.number for result in load.results] == [0, 1, 2]
    assert len(load.turns) >= 3
    assert load.counts
    assert load.latency(0.5).value == pytest.approx(0.4, abs=0.03)
    assert (load.unanswered, load.cut_ins, load.gaps, load.lost, load.wrong) == (0, 0, 0, 0, 0)
    assert (load.refused, load.broken) == ([], [])
    assert 0 < load.set_up < 1
    assert 0 < load.tester_share < 1
    assert load.holds(Target(seconds=0.5))
    assert not load.holds(Target(seconds=0.3))
    assert load.confidence(Target(seconds=0.5)) == 1.0


async def test_a_server_that_never_answers_is_infinitely_late(tones: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loadtest.latency.PATIENCE", 0.5)
    load = await measured(Behaviour(answers=False), tones)
    assert load.unanswered == len(load.turns) >= 1
    assert not load.holds(Target(seconds=1e9))


async def test_a_server_that_speaks_over_its_callers_is_seen(tones: Path) -> None:
    load = await measured(Behaviour(cuts_in_after=0.3), tones)
    assert load.cut_ins == len(load.turns) >= 1


async def test_a_break_inside_a_reply_is_a_gap(tones: Path) -> None:
    load = await measured(Behaviour(stall=0.2), tones)
    assert load.gaps == len(load.turns) >= 1


async def test_frames_that_are_not_sent_are_lost(tones: Path) -> None:
    load = await measured(Behaviour(drops=20), tones, seconds=1.0)
    missing = LASTS // 20 - 1  # the last one of an answer is missed by nobody
    assert load.lost == pytest.approx(missing * len(load.turns), abs=1)
    assert load.gaps == 0


async def test_a_full_server_is_quoted_with_its_retry_after(tones: Path) -> None:
    load = await measured(Behaviour(refuses=True), tones, calls=2, seconds=1.0)
    assert load.refused == ["HTTP 503, Retry-After 7"] * 2
    assert not load.unreachable
    assert not load.holds(Target(seconds=1e9))


async def test_an_agent_that_does_not_heed_an_interruption_is_seen(tones: Path) -> None:
    rude = Script("rude", seconds=(0.9, 1.1), think=(0.1, 0.2), interrupts=1.0, interrupts_after=(0.2, 0.3))
    load = await measured(Behaviour(drops=LASTS + 1), tones, seconds=4.0, script=rude)
    assert load.stops
    assert max(load.stops) == pytest.approx(1.0, abs=0.1), "it spoke on as long as the caller did"
    assert load.cut_ins == 0, "whoever interrupts is not cut into"


def test_two_tries_are_judged_by_all_their_turns() -> None:
    def step(*latencies: float) -> Load:
        turns = [Turn("a", "a", 1.0, 1.0, late, 0.0) for late in latencies]
        return Load(1, (CallResult(0, "test", 0.0, turns=turns),))

    lucky, unlucky = step(*[0.3] * 19, 0.4), step(*[0.3] * 18, 0.9, 0.9)
    assert lucky.holds(Target())
    assert not unlucky.holds(Target())
    assert pooled([lucky, unlucky]).holds(Target()), "two of forty are five of a hundred"
    assert not pooled([unlucky, unlucky]).holds(Target())


async def test_a_silent_caller_holds_a_place_without_a_turn(tones: Path) -> None:
    load = await measured(Behaviour(), tones, seconds=1.0, script=Script("silent", silent=True))
    assert load.turns == []
    assert load.results[0].ended - load.results[0].began > 1.0


async def test_turns_before_all_calls_are_up_do_not_count(tones: Path) -> None:
    async with server(Behaviour()) as address:
        plan = together(2, 3.0, [AT_ONCE], seed=0, stagger=3.0)
        load = await hold(Aim(address, recordings=tones), plan, settled=3.0)
    assert len(load.turns) < sum(len(result.turns) for result in load.results)


@pytest.fixture
def options() -> Callable[..., argparse.Namespace]:
    def parse(*flags: str) -> argparse.Namespace:
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        return parser.parse_args(flags)

    return parse


def test_nobody_at_the_other_end_is_said_in_a_line(options: Callable, capsys: pytest.CaptureFixture) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = ("--seconds", "1", "--warm-up", "0", "--calls", "1", "5")
    assert command.run(options(f"ws://127.0.0.1:{port}", *flags)) == 2
    out = capsys.readouterr().out
    assert "refused" in out
    assert "5 calls" not in out, "no use in trying on"


def test_a_folder_without_recordings_is_said(options: Callable, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert command.run(options("--recordings", str(tmp_path))) == 2
    assert "--recordings" in capsys.readouterr().err


def test_a_script_with_a_mistake_is_said_with_its_line(
    options: Callable, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    script = tmp_path / "slow.toml"
    script.write_text("# a caller\nthink = [2.0, 1.0]\n")
    assert command.run(options("--script", str(script))) == 2
    assert "line 2" in capsys.readouterr().err


async def test_what_was_measured_is_kept_as_json_and_as_a_page(options: Callable, tones: Path) -> None:
    files = tones / "out.json", tones / "out.html"
    async with server(Behaviour()) as address:
        flags = ("--seconds", "2", "--warm-up", "0", "--recordings", str(tones), "--script", str(_short(tones)))
        chosen = options(address, *flags, "--json", str(files[0]), "--html", str(files[1]))
        assert await asyncio.to_thread(command.run, chosen) == 0
    steps = json.loads(files[0].read_text())["steps"]
    assert steps[0]["p50_ms"][0] == pytest.approx(300, abs=40)
    assert "<svg" in files[1].read_text()
    assert "http" not in files[1].read_text().replace("http://www.w3.org/2000/svg", ""), "nothing is fetched"


def _short(folder: Path) -> Path:
    (folder / "short.toml").write_text("seconds = [0.9, 1.1]\nthink = [0.5, 0.6]\n")
    return folder / "short.toml"


@pytest.mark.parametrize(
    ("text", "target"),
    [("p95<=800ms", Target()), ("p90 <= 1.2s", Target(0.9, 1.2)), ("800", Target()), ("p99<500ms", Target(0.99, 0.5))],
)
def test_targets(options: Callable, text: str, target: Target) -> None:
    assert options("--slo", text).slo == target


@pytest.mark.parametrize("text", ["fast", "p95", "p0<=1s", "p100<=800ms", ""])
def test_targets_that_are_none(options: Callable, text: str) -> None:
    with pytest.raises(SystemExit):
        options("--slo", text)
