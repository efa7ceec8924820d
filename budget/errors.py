"""The one error tree of the service; every error carries a stable `code` for logs and clients.

    HalfsecondError
    ├── ConfigError          the operator's settings can't work; says which and what to write instead
    ├── ModelError           a model file is missing, broken or can't be fetched
    ├── ReservationError     the engines don't fit into memory, or memory was counted wrong
    ├── EngineError          a model failed at work: `stage`, and whether a retry may help
    └── PeerError            the other side broke its protocol; told to it, never fatal to the process

A refusal (no room for a call, a queue that is full) is a value, not an exception.
"""

from collections.abc import Iterator

from budget.deadline import Stage


class HalfsecondError(Exception):
    """Base of all errors raised on purpose."""

    code = "internal_error"


class ConfigError(HalfsecondError):
    """The configuration can't be used; the message names the setting."""

    code = "invalid_configuration"


class ModelError(HalfsecondError):
    """A model is missing, fails its checks or could not be downloaded."""

    code = "model_unavailable"


class ReservationError(HalfsecondError):
    """Memory can't be promised: the plan does not fit its devices, or a reservation was given back twice."""

    code = "out_of_memory"


class EngineError(HalfsecondError):
    """An engine failed while serving one turn; the call goes on."""

    code = "engine_failed"

    def __init__(self, stage: Stage, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.stage = stage
        self.retryable = retryable


class PeerError(HalfsecondError):
    """The client sent something its protocol does not allow.

    `code` is the protocol's own word for it (for OpenAI Realtime: `invalid_value`,
    `unknown_event`, ...) and `param` the offending field.
    """

    def __init__(self, code: str, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param


def leaf_errors(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """The errors in a group and in the groups inside it."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaf_errors(error)
        else:
            yield error
