"""onnxruntime sessions as a shared machine needs them: threads that don't spin, memory on a card within a bound."""

from pathlib import Path

import onnxruntime

from budget.errors import ModelError

_QUIET = 3
"""Errors only: models warn of much that nobody can change."""


def onnx_session(path: Path, *, threads: int = 1, device: str = "cpu", memory: int = 0) -> onnxruntime.InferenceSession:
    """The model in `path` on `threads` threads, or on a card (`device` "cuda") within `memory` bytes of it.

    Plans of memory are off: one is kept for each length of input (100 MB more with a voice, and slower).
    Raises `ModelError`.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    options.log_severity_level = _QUIET
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=_providers(device, memory))
    except Exception as error:  # onnxruntime's exceptions have no common type of their own
        raise ModelError(f"the model {path} can't be loaded: {error}") from error
    if device != "cpu" and "CUDAExecutionProvider" not in session.get_providers():
        raise ModelError(f"{path.name} was not taken by the card: see the log of CUDA and cuDNN above")
    return session


def _providers(device: str, memory: int) -> list[str | tuple[str, dict[str, str]]]:
    if device == "cpu":
        return ["CPUExecutionProvider"]
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        raise ModelError("this onnxruntime knows no CUDA; run `make gpu`")
    onnxruntime.preload_dlls()  # CUDA's and cuDNN's libraries out of their Python packages, where those are there
    bound = {"device_id": "0", "gpu_mem_limit": str(memory), "arena_extend_strategy": "kSameAsRequested"}
    return [("CUDAExecutionProvider", bound), "CPUExecutionProvider"]
