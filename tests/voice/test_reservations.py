"""What the configured engines declare, and on which device; the files of the default models are there."""

import pytest

from budget.errors import ReservationError
from budget.machine_memory import card
from voice.config import load_settings
from voice.reservations import CARD, ledger, reservations

pytestmark = pytest.mark.models
ALL_ON_CARD = {"asr": {"device": "cuda"}, "tts": {"device": "cuda"}, "vad": {"device": "cuda"}}


def test_without_a_card_everything_is_beside_the_processor() -> None:
    assert {one.device for one in reservations(load_settings(None))} == {"cpu"}


@pytest.mark.parametrize("voice", [{"engine": "piper"}, {"engine": "kokoro"}])
def test_every_engine_can_be_promised_memory_of_the_card(voice: dict[str, str]) -> None:
    settings = load_settings(
        None,
        asr={"device": "cuda"},
        llm={"gpu_layers": 99},
        tts={"device": "cuda", **voice},
        vad={"device": "cuda"},
    )
    where = {one.engine: one.device for one in reservations(settings)}
    assert where.pop("service") == "cpu"
    assert set(where) == {"whisper", "llama", voice["engine"], "smart-turn"}
    assert set(where.values()) == {CARD}


@pytest.mark.skipif(card() is not None, reason="this machine has a card")
def test_a_card_that_is_not_there_is_said_before_anything_loads() -> None:
    with pytest.raises(ReservationError, match=r"no device cuda:0 on this machine; there is cpu"):
        ledger(load_settings(None, **ALL_ON_CARD))
