"""The load tester against the real service, over each of its protocols."""

import pytest

from loadtest.arrivals import together
from loadtest.crew import Aim, hold
from loadtest.script import Script
from tests.conftest import Server

pytestmark = pytest.mark.models

LAMP = Script("lamp", ("en_living_room_lamp",), seconds=(0.5, 10.0), think=(1.0, 1.2), patience=60.0)


@pytest.mark.parametrize("protocol", ["twilio", "realtime", "webrtc"])
async def test_a_real_call_is_measured_over_every_protocol(server: Server, protocol: str) -> None:
    aim = Aim(server.url("", "http" if protocol == "webrtc" else "ws"), protocol)
    load = await hold(aim, together(1, 18.0, [LAMP], seed=0))
    assert (load.refused, load.broken, load.unanswered, load.wrong) == ([], [], 0, 0)
    assert load.turns
    assert 0.1 < load.latency(0.5).value < 10
    assert 0 < load.set_up < 10
    assert load.observed.stages["endpoint"].mean > 0
    assert load.observed.work["llm/first_audio"].pieces >= 1
    assert load.observed.resident > 1e8
    if protocol != "twilio":
        assert any("lamp" in turn.understood.lower() for turn in load.turns), "a breath of the line may come first"
        assert load.turns[0].answered
        assert {bar["stage"] for bar in load.turns[0].stages} >= {"endpoint", "asr", "llm"}
    await server.idle()
