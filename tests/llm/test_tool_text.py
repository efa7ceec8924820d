"""Function calls as text, with any cut of the stream."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from llm.chat import Message, ToolCall
from llm.tool_text import ToolCallReader, written
from transport.requests import Tool

SAID = 'I put you through. <tool_call>\n{"name": "transfer_call", "arguments": {"to": "sales"}}\n</tool_call>'


def read(*deltas: str) -> tuple[str, list[ToolCall]]:
    reader = ToolCallReader()
    parts = [part for delta in deltas for part in reader.feed(delta)] + list(reader.flush())
    return "".join(p for p in parts if isinstance(p, str)), [p for p in parts if isinstance(p, ToolCall)]


@given(st.lists(st.integers(0, len(SAID)), max_size=8))
def test_a_call_is_read_wherever_the_stream_is_cut(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(SAID)]
    text, calls = read(*(SAID[a:b] for a, b in pairwise(edges)))
    assert text.strip() == "I put you through."
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [("transfer_call", {"to": "sales"})]


@given(st.lists(st.text(), max_size=10))
def test_any_text_is_spoken_or_a_call_and_never_breaks(deltas: list[str]) -> None:
    text, calls = read(*deltas)
    if "<tool_call>" not in "".join(deltas):
        assert (text, calls) == ("".join(deltas), [])


def test_words_come_at_once_and_a_call_may_lack_its_end() -> None:
    reader = ToolCallReader()
    assert list(reader.feed("Good ")) == ["Good "]
    assert read('<tool_call>[{"name": "hang_up"}]')[1][0].arguments == "{}"
    assert read("<tool_call>nonsense</tool_call> well") == (" well", [])
    assert read("a < b <tool") == ("a < b <tool", [])


def test_the_prompt_tells_of_functions_calls_and_results() -> None:
    call = ToolCall("c1", "weather", '{"city": "Rome"}')
    tool = Tool("weather", "The weather.", {"type": "object"})
    prompt = written(
        [
            Message("system", "Be brief.", tools=(tool,)),
            Message("user", "Is it warm in Rome?"),
            Message("assistant", "Let me see."),
            Message("assistant", "", call=call),
            Message("tool", "31 degrees", call=call),
            Message("user", "And?"),
        ]
    )
    assert [role for role, _ in prompt] == ["system", "user", "assistant", "user"]
    assert '"name": "weather"' in prompt[0][1]
    assert read(prompt[2][1])[1][0].arguments == '{"city": "Rome"}'
    assert "31 degrees" in prompt[3][1] and prompt[3][1].endswith("And?")
