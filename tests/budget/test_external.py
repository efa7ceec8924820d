"""A language model's server on the same card gets the share that was promised to it, in its own terms."""

import re

from hypothesis import given
from hypothesis import strategies as st

from budget.external import Server
from budget.model_sizes import WORKSPACE_LLM
from budget.planner import Wish, plan

CARD = 24e9


def number(command: str, flag: str) -> float:
    found = re.search(rf"--{flag} ([\d.]+)", command)
    assert found, command
    return float(found[1])


@given(st.floats(0.1e9, CARD), st.floats(CARD, 200e9))
def test_no_server_is_told_to_take_more_than_it_was_promised(memory: float, card: float) -> None:
    server = Server("some/model", memory, card, 2048, 8)
    assert number(server.vllm(), "gpu-memory-utilization") * card <= memory * (1 + 1e-9)
    assert memory - number(server.vllm(), "gpu-memory-utilization") * card <= 0.0101 * card
    assert number(server.sglang(), "mem-fraction-static") * card <= max(0.0, memory - WORKSPACE_LLM) + 1


def test_each_call_may_ask_twice_at_once() -> None:
    server = Server("some/model", 9e9, CARD, 2048, 8)
    assert number(server.vllm(), "max-num-seqs") == number(server.sglang(), "max-running-requests") == 16
    assert number(server.vllm(), "max-model-len") == number(server.sglang(), "context-length") == 2048


def test_the_plans_server_holds_the_model_and_its_calls_and_leaves_the_others_their_room() -> None:
    found = plan(Wish(10))
    others = sum(line.bytes for line in found.lines if not line.engine.startswith("language model"))
    assert found.server.model == "Qwen/Qwen2.5-7B-Instruct-AWQ"
    assert found.server.memory > 7e9 + found.a_call * found.server.calls
    assert found.server.share * CARD + others <= CARD
