"""A language model's own server on the same card (vLLM, SGLang): the share of the card that it is promised, and the
command that keeps it to that.

vLLM's `--gpu-memory-utilization` bounds all that one server takes of the card; SGLang's `--mem-fraction-static` bounds
weights and cache, beside which it wants room for work in progress (both by their documentation).
"""

import math
from dataclasses import dataclass

from budget.model_sizes import WORKSPACE_LLM

_REQUESTS_A_CALL = 2
"""A reply, and the judgement whether a sentence is whole."""


@dataclass(frozen=True)
class Server:
    """What is promised to it: `memory` bytes of a card of `card` bytes, for `calls` calls of `context` tokens."""

    model: str
    memory: float
    card: float
    context: int
    calls: int

    @property
    def share(self) -> float:
        """Of the card, in hundredths; never more than was promised."""
        return _hundredths(self.memory / self.card)

    def vllm(self) -> str:
        """The command that starts vLLM within its share."""
        return (
            f"vllm serve {self.model} --gpu-memory-utilization {self.share:.2f} --max-model-len {self.context}"
            f" --max-num-seqs {_REQUESTS_A_CALL * self.calls} --enable-prefix-caching"
        )

    def sglang(self) -> str:
        """The command that starts SGLang within its share."""
        static = _hundredths(max(0.0, self.memory - WORKSPACE_LLM) / self.card)
        return (
            f"python -m sglang.launch_server --model-path {self.model} --mem-fraction-static {static:.2f}"
            f" --context-length {self.context} --max-running-requests {_REQUESTS_A_CALL * self.calls}"
        )


def _hundredths(share: float) -> float:
    return math.floor(share * 100 + 1e-9) / 100
