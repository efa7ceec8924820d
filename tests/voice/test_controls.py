"""What is done with the line: by the model's calls and by who controls the call, on a virtual clock."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from budget.errors import PeerError
from llm.chat import ToolCall
from tests.voice.fakes import FakeChat, Scene, ScriptedLeg
from transport.leg import ReplyEnded
from transport.requests import Act, AddToolResult, CreateReply, Part, PressKey, ReadKeys, SendKeys, Tool, Transfer
from voice.session import CallSettings

SETTINGS = CallSettings(
    instructions="Be brief.",
    line_tools=("hang_up", "transfer_call", "press_keys", "read_keys", "hold"),
    transfers={"sales": "sip:sales@example.net", "nobody": "nobody"},
)


def model(*words: str | ToolCall, then: tuple[str | ToolCall, ...] = (" Well.",)) -> Scene:
    return Scene(chat=FakeChat(words=list(words), then=list(then)))


def test_the_caller_hears_the_handover_and_is_then_transferred(run_virtual: Callable) -> None:
    leg = ScriptedLeg([(1.0, 2.0)], 12.0)
    scene = model("I put", " you through.", ToolCall("c1", "transfer_call", '{"to": "sales"}'))
    call = run_virtual(scene.call(leg, SETTINGS))
    when, target = leg.transferred[0]
    assert target == "sip:sales@example.net"
    assert when > leg.played[-1], "only once it was said"
    assert call.record.reason == "transferred"


def test_a_transfer_that_fails_is_told_to_the_model_which_goes_on(run_virtual: Callable) -> None:
    leg = ScriptedLeg([(1.0, 2.0)], 8.0)
    scene = model("One moment.", ToolCall("c1", "transfer_call", '{"to": "nobody"}'), then=(" They are out.",))
    call = run_virtual(scene.call(leg, SETTINGS))
    assert [m.role for m in scene.chat.prompts[1]] == ["system", "user", "assistant", "assistant", "tool"]
    assert "404" in scene.chat.prompts[1][-1].text
    assert call.dialogue.entries()[-1].text == "They are out."
    assert call.record.reason == "script over"


def test_what_was_called_in_an_answer_that_is_cut_off_is_not_done(run_virtual: Callable) -> None:
    leg = ScriptedLeg([(1.0, 2.0), (3.4, 4.4)], 9.0)
    long = [f" {word}" for word in "goodbye and thank you for calling us, it was very nice to talk to you.".split()]
    scene = model(*long, ToolCall("c1", "hang_up", "{}"))
    assert run_virtual(scene.call(leg, SETTINGS)).record.reason == "script over"


def test_the_model_hangs_up_after_its_goodbye(run_virtual: Callable) -> None:
    leg = ScriptedLeg([(1.0, 2.0)], 12.0)
    assert run_virtual(model("Goodbye.", ToolCall("c1", "hang_up", "{}")).call(leg, SETTINGS)).record.reason == (
        "agent hung up"
    )
    assert len(leg.played) > 10


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("transfer_call", '{"to": "the moon"}'), ("transfer_call", "{"), ("press_keys", "[]"), ("rob_a_bank", "{}")],
)
def test_calls_that_make_no_sense_are_told_to_the_model_a_few_times(
    run_virtual: Callable, name: str, arguments: str
) -> None:
    leg = ScriptedLeg([(1.0, 2.0)], 20.0)
    nonsense = ToolCall("c1", name, arguments)
    scene = model(" So.", nonsense, then=(" Again.", replace(nonsense, call_id="c2")))
    run_virtual(scene.call(leg, SETTINGS))
    assert leg.transferred == [] and leg.pressed == []
    assert len(scene.chat.prompts) == 4, "an answer to the caller, and three to its own failures"


def test_keys_that_the_model_asks_for_are_its_result(run_virtual: Callable) -> None:
    leg = ScriptedLeg([(1.0, 2.0)], 12.0)
    leg.requests = [(5.0, PressKey("4")), (5.4, PressKey("2"))]
    scene = model("Your pin?", ToolCall("c1", "read_keys", '{"digits": 2}'), then=(" Thanks.",))
    run_virtual(scene.call(leg, SETTINGS))
    assert scene.chat.prompts[1][-1].text == "42"
    assert len(leg.pressed) == 0


def test_a_client_s_function_is_told_to_it_and_its_result_answered_when_it_asks(run_virtual: Callable) -> None:
    leg = ScriptedLeg([(1.0, 2.0)], 12.0)
    leg.requests = [(6.0, AddToolResult("item_r", "c1", "sunny")), (6.1, CreateReply())]
    weather = Tool("weather", "The weather.", {"type": "object", "properties": {}})
    scene = model("Let me see.", ToolCall("c1", "weather", "{}"), then=(" It is sunny.",))
    run_virtual(scene.call(leg, replace(SETTINGS, tools=(weather,))))
    assert [one.name for one in leg.all(ReplyEnded)[0].calls] == ["weather"]
    assert scene.chat.prompts[0][0].tools[0] is weather
    assert scene.chat.prompts[1][-1].text == "sunny"


def test_who_controls_the_call_is_told_what_came_of_it(run_virtual: Callable) -> None:
    leg, outcomes = ScriptedLeg([], 15.0), []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        acts = [
            Act(SendKeys("12#"), done=loop.create_future()),
            Act(Transfer("nobody"), done=loop.create_future()),
            Act(ReadKeys(patience=2.0), say="Your pin, please?", done=loop.create_future()),
            Act(Part(), say="Goodbye.", done=loop.create_future()),
            Act(SendKeys("1"), done=loop.create_future()),
        ]
        leg.requests = [(1.0, act) for act in acts]
        call = await Scene().call(leg, SETTINGS)
        outcomes.append(call.record.reason)
        for act in acts:
            assert act.done is not None
            outcomes.append(act.done.result() if act.done.exception() is None else act.done.exception())

    run_virtual(run())
    reason, pressed, transferred, read, parted, late = outcomes
    assert (reason, pressed, read, parted) == ("agent hung up", "done", "no keys were pressed", "ended")
    assert isinstance(transferred, PeerError) and transferred.code == "transfer_failed"
    assert isinstance(late, PeerError) and late.code == "call_over"
    assert leg.pressed == ["12#"]
