"""The planner: memory, time and money add up, and what does not fit is said."""

from dataclasses import replace

import pytest

from budget.devices import DEVICES
from budget.model_sizes import LLM
from budget.planner import Wish, owned, plan, rented

TEN = Wish(10, "rtx4090")


def test_ten_calls_fit_on_one_card_of_24_gb() -> None:
    found = plan(TEN)
    assert found.fits
    assert found.cards == 1
    assert sum(line.bytes for line in found.lines) + 10 * found.a_call < found.memory
    assert found.p95 <= 0.8
    assert 4 <= found.lanes < 10, "not all callers talk at once"


def test_a_calls_history_is_what_its_model_keeps_of_each_token() -> None:
    assert plan(TEN).a_call == LLM["qwen2.5-7b-awq"].cache * 2048
    assert plan(replace(TEN, context=4096)).by_memory < plan(TEN).by_memory


def test_more_calls_than_a_card_carries_need_more_cards() -> None:
    one = plan(replace(TEN, calls=400))
    assert one.cards > 1
    assert one.cards * min(one.by_memory, one.by_time) >= 400


def test_a_machine_of_eight_cards_has_the_models_on_each() -> None:
    one, eight = plan(replace(TEN, gpu="h100")), plan(replace(TEN, gpu="8xh100"))
    assert eight.by_memory == 8 * one.by_memory
    assert eight.memory == one.memory


def test_a_card_that_is_too_small_is_said() -> None:
    found = plan(replace(TEN, gpu="rtx3060", asr="large-v3", llm="llama-3.1-8b-awq"))
    assert not found.fits
    assert found.cards == 0


def test_callers_who_talk_more_need_more_lanes() -> None:
    assert plan(replace(TEN, activity=0.7)).lanes > plan(TEN).lanes


@pytest.mark.parametrize(("utilisation", "cheaper"), [(0.1, "rent"), (0.2, "rent"), (0.4, "own"), (0.9, "own")])
def test_below_a_quarter_of_the_month_renting_is_cheaper(utilisation: float, cheaper: str) -> None:
    own, rent = owned(DEVICES["rtx4090"], utilisation), rented(DEVICES["rtx4090"], utilisation)
    assert own is not None and rent is not None
    assert (own < rent) == (cheaper == "own")


def test_a_price_that_nobody_published_is_not_made_up() -> None:
    assert plan(replace(TEN, gpu="h200")).own is None
