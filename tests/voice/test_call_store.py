"""Call records in a real SQLite file: written as calls go, read back, deleted, and what a killed process leaves."""

import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from budget.admission import Asked
from budget.deadline import TurnTimings
from budget.errors import ConfigError
from voice.call_store import CallStore
from voice.records import CallRecord, Outcome, Turn


def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'calls.sqlite'}"


def a_call(name: str = "call_a", **about: str) -> CallRecord:
    return CallRecord(name, "twilio", 0.0, about=about, owner="10.0.0.7")


def a_turn(name: str = "turn_1", call: str = "call_a", caller: str = "hello") -> Turn:
    timings = TurnTimings(speech_end=10.0, endpoint=10.2, first_sent=10.35)
    return Turn(name, call, caller, "Good morning to you.", "Good morning", timings, Outcome.BARGED_IN, 0.8, 3.25)


def written(tmp_path: Path, *, texts: bool = True) -> CallStore:
    """A store that was closed after one call of one turn, opened again."""
    store = CallStore(url(tmp_path), texts=texts)
    call = a_call(**{"from": "+4930123456", "to": "100", "x-queue": "sales"})
    store.began(call)
    store.turn(a_turn(), 1)
    call.reason, call.talked = "caller hung up", 1.5
    store.ended(call, 12.5)
    store.close()
    return CallStore(url(tmp_path))


def test_a_call_is_kept_with_its_turns(tmp_path: Path) -> None:
    store = written(tmp_path)
    call = store.call("call_a")
    assert call is not None
    assert (call["from"], call["to"], call["about"]["x-queue"]) == ("+4930123456", "100", "sales")
    assert (call["transport"], call["reason"], call["seconds"]) == ("twilio", "caller hung up", 12.5)
    assert call["began"].endswith("+00:00")
    assert call["ended"] >= call["began"]
    (turn,) = call["turns"]
    assert (turn["caller"], turn["said"], turn["heard"]) == ("hello", "Good morning to you.", "Good morning")
    assert (turn["outcome"], turn["cut_at"], turn["at"]) == ("barged_in", 0.8, 3.25)
    assert turn["timings"]["voice_to_voice_ms"] == pytest.approx(350)
    store.close()


def test_texts_are_left_out_where_the_operator_wants_none(tmp_path: Path) -> None:
    store = written(tmp_path, texts=False)
    call = store.call("call_a")
    assert call is not None
    assert {call["turns"][0][name] for name in ("caller", "said", "heard")} == {""}
    store.close()


def test_refused_calls_are_kept_with_the_reason(tmp_path: Path) -> None:
    store = CallStore(url(tmp_path))
    store.refused(Asked("10.0.0.9", transport="audiosocket"), "at_capacity")
    store.close()
    store = CallStore(url(tmp_path))
    (call,) = store.page(limit=10)
    assert (call["refused"], call["reason"], call["transport"], call["turns"]) == (
        True,
        "at_capacity",
        "audiosocket",
        0,
    )
    store.close()


def test_pages_go_from_the_newest_to_the_oldest_and_miss_none(tmp_path: Path) -> None:
    store = CallStore(url(tmp_path))
    for i in range(25):
        store.began(a_call(f"call_{i:02}"))
    store.close()
    store, seen, before = CallStore(url(tmp_path)), [], ""
    while page := store.page(limit=7, before=before):
        seen += [call["id"] for call in page]
        before = page[-1]["id"]
    assert seen == [f"call_{i:02}" for i in reversed(range(25))]
    assert store.page(limit=7, before="call_unknown") == []
    store.close()


def test_a_call_is_deleted_with_its_turns(tmp_path: Path) -> None:
    store = written(tmp_path)
    assert store.delete("call_a")
    assert not store.delete("call_a")
    assert store.call("call_a") is None
    store.close()
    rows = sqlite3.connect(tmp_path / "calls.sqlite").execute("SELECT count(*) FROM turns").fetchone()
    assert rows == (0,)


def test_old_calls_are_forgotten_and_young_ones_kept(tmp_path: Path) -> None:
    store = written(tmp_path)
    assert store.forget(1.0) == []
    assert list(store.forget(0.0)) == ["call_a"]
    assert store.page(limit=10) == []
    store.close()


def test_a_place_that_can_not_be_opened_is_named_with_the_setting(tmp_path: Path) -> None:
    (tmp_path / "no-folder").write_text("")
    with pytest.raises(ConfigError, match=r"records\.url"):
        CallStore(f"sqlite:///{tmp_path / 'no-folder' / 'calls.sqlite'}")
    with pytest.raises(ConfigError, match=r"records\.url"):
        CallStore("nosuchdatabase://somewhere")


WRITER = """
import sys
from tests.voice.test_call_store import a_call, a_turn
from voice.call_store import CallStore
store = CallStore(sys.argv[1])
for call in range(1000):
    name = f"call_{sys.argv[2]}_{call}"
    store.began(a_call(name))
    for turn in range(1, 6):
        store.turn(a_turn(f"turn_{sys.argv[2]}_{call}_{turn}", name, f"{turn}"), turn)
        store._writer.submit(print, name, turn, flush=True).result()
    store.ended(a_call(name), 1.0)
"""


@pytest.mark.slow
def test_a_process_killed_at_any_moment_has_kept_every_turn_that_ended(tmp_path: Path) -> None:
    dice, told = random.Random(7), {}
    for life in range(100):
        command = [sys.executable, "-c", WRITER, url(tmp_path), str(life)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline()]
            time.sleep(dice.uniform(0.0, 0.03))
            process.send_signal(signal.SIGKILL)
            lines += process.stdout.readlines()
        for name, turn in (line.split() for line in lines if line.endswith("\n")):
            told[name] = int(turn)
    store = CallStore(url(tmp_path))
    assert len(told) >= 100
    for name, last in told.items():
        call = store.call(name)
        assert call is not None
        assert [turn["caller"] for turn in call["turns"]][:last] == [str(i) for i in range(1, last + 1)]
        assert call["ended"] is not None, "and its call is closed at the next start"
    store.close()


def test_calls_of_a_process_that_lives_are_left_open(tmp_path: Path) -> None:
    CallStore(url(tmp_path)).close()
    with sqlite3.connect(tmp_path / "calls.sqlite") as database:
        for name, service in (("call_mine", f"{socket.gethostname()}:{os.getppid()}"), ("call_far", "elsewhere:1")):
            database.execute(
                "INSERT INTO calls (id, transport, profile, owner, caller, called, about, began, refused, service)"
                " VALUES (?, 'sip', 'dialogue', '', '', '', '{}', '2026-01-01 00:00:00.000000', 0, ?)",
                (name, service),
            )
    store = CallStore(url(tmp_path))
    assert {call["ended"] for call in store.page(limit=10)} == {None}
    store.close()


def test_refusals_are_written_again_after_a_database_kept_everything_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CallStore(url(tmp_path))
    monkeypatch.setattr("voice.call_store._MOST_WAITING", 0)
    store.refused(Asked("10.0.0.8", transport="sip"), "at_capacity")
    monkeypatch.undo()
    store.refused(Asked("10.0.0.9", transport="sip"), "at_capacity")
    store.close()
    assert [call["owner"] for call in CallStore(url(tmp_path)).page(limit=9)] == ["10.0.0.9"]
