"""The ledger: promises only what is there, says what to change, and never counts wrong."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget.errors import ReservationError
from budget.machine_memory import cgroup_limit, processor_memory, resident
from budget.memory import MB, Device, MemoryLedger, Reservation

WHISPER = Reservation("whisper", "cpu", 80 * MB, 60 * MB)
LLAMA = Reservation("llama", "cpu", 100 * MB, 40 * MB, 20 * MB)


def test_a_plan_that_fits_is_promised() -> None:
    ledger = MemoryLedger([Device("cpu", 1000 * MB)], [WHISPER, LLAMA], calls=4)
    assert ledger.promised("cpu") == 360 * MB
    assert [(row.engine, row.reserved) for row in ledger.rows()] == [("whisper", 140 * MB), ("llama", 220 * MB)]


def test_a_plan_that_does_not_fit_says_what_would() -> None:
    with pytest.raises(ReservationError) as refused:
        MemoryLedger([Device("cpu", 400 * MB)], [WHISPER, LLAMA], calls=10)
    text = str(refused.value)
    assert "llama" in text and "340 MB" in text
    assert "call.max_calls to 5" in text


def test_engines_that_don_t_fit_without_a_call_ask_for_smaller_models() -> None:
    with pytest.raises(ReservationError, match="smaller models"):
        MemoryLedger([Device("cpu", 200 * MB)], [WHISPER, LLAMA], calls=1)


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(ReservationError, match="cuda:0"):
        MemoryLedger([Device("cpu", 200 * MB)], [Reservation("whisper", "cuda:0", 1, 1)], calls=1)


def test_an_engine_that_takes_more_than_it_declared_is_found() -> None:
    ledger = MemoryLedger([Device("cpu", 1000 * MB)], [WHISPER, LLAMA], calls=4)
    ledger.measured("whisper", 139 * MB)
    assert ledger.over() == ()
    ledger.measured("llama", 221 * MB)
    assert [row.engine for row in ledger.over()] == ["llama"]
    assert "221 MB" in ledger.table()


def test_giving_back_what_nobody_holds_is_an_error() -> None:
    ledger = MemoryLedger([Device("cpu", 1000 * MB)], [LLAMA], calls=1)
    assert ledger.hold()
    assert not ledger.hold()
    ledger.give_back()
    with pytest.raises(ReservationError):
        ledger.give_back()


@given(st.lists(st.booleans(), max_size=200), st.integers(1, 8))
def test_no_life_of_calls_leaks_or_overdraws(steps: list[bool], calls: int) -> None:
    ledger = MemoryLedger([Device("cpu", 1000 * MB)], [LLAMA], calls=calls)
    held = 0
    for begins in steps:
        if begins:
            held += ledger.hold()
        elif held:
            ledger.give_back()
            held -= 1
        assert ledger.held == held <= calls
        assert ledger.room == (held < calls)


@given(st.integers(50, 3000), st.integers(1, 40))
def test_what_it_advises_is_what_it_accepts(total: int, calls: int) -> None:
    device = Device("cpu", total * MB)
    try:
        MemoryLedger([device], [WHISPER, LLAMA], calls=calls)
    except ReservationError as error:
        advised = str(error).rpartition("max_calls to ")[2].partition(",")[0]
        if advised.isdigit():
            MemoryLedger([device], [WHISPER, LLAMA], calls=int(advised))
            with pytest.raises(ReservationError):
                MemoryLedger([device], [WHISPER, LLAMA], calls=int(advised) + 1)
        else:
            with pytest.raises(ReservationError):
                MemoryLedger([device], [WHISPER, LLAMA], calls=1)


def test_the_smallest_limit_above_this_process_counts(tmp_path: Path) -> None:
    inside = tmp_path / "shop" / "voice"
    inside.mkdir(parents=True)
    (inside / "memory.max").write_text("max\n")
    (tmp_path / "shop" / "memory.max").write_text("2000000000\n")
    (tmp_path / "memory.max").write_text("8000000000\n")
    listing = tmp_path / "cgroup"
    listing.write_text("0::/shop/voice\n")
    assert cgroup_limit(tmp_path, listing) == 2_000_000_000


def test_the_older_kind_of_limit_counts_too(tmp_path: Path) -> None:
    inside = tmp_path / "memory" / "box"
    inside.mkdir(parents=True)
    (inside / "memory.limit_in_bytes").write_text("1000000000\n")
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    listing = tmp_path / "cgroup"
    listing.write_text("5:memory:/box\n4:cpu:/box\n")
    assert cgroup_limit(tmp_path, listing) == 1_000_000_000


def test_no_limit_is_no_limit(tmp_path: Path) -> None:
    assert cgroup_limit(tmp_path, tmp_path / "none") is None


def test_this_process_is_within_its_machine() -> None:
    assert 0 < resident() < processor_memory().total
