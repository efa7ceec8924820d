"""Kokoro by PyTorch: what is said where something is missing, and the real program where PyTorch is installed."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from budget.errors import ModelError
from tts.kokoro import Style
from tts.kokoro_torch import WEIGHTS, TorchKokoro, reservation

TORCH = importlib.util.find_spec("torch") is not None and importlib.util.find_spec("kokoro") is not None
SHAPE = {
    "istftnet": {
        "upsample_kernel_sizes": [20, 12],
        "upsample_rates": [10, 6],
        "gen_istft_hop_size": 5,
        "gen_istft_n_fft": 20,
        "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5], [1, 3, 5]],
        "resblock_kernel_sizes": [3, 7, 11],
        "upsample_initial_channel": 512,
    },
    "dim_in": 64,
    "dropout": 0.2,
    "hidden_dim": 512,
    "max_conv_dim": 512,
    "max_dur": 50,
    "multispeaker": True,
    "n_layer": 3,
    "n_mels": 80,
    "n_token": 178,
    "style_dim": 128,
    "text_encoder_kernel_size": 5,
    "plbert": {
        "hidden_size": 768,
        "num_attention_heads": 12,
        "intermediate_size": 2048,
        "max_position_embeddings": 512,
        "num_hidden_layers": 12,
        "dropout": 0.1,
    },
    "vocab": {"a": 43, "b": 44},
}
"""The real model's shape."""


def test_missing_weights_are_named_with_the_command_that_fetches_them(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="halfsecond models pull kokoro-torch"):
        TorchKokoro(tmp_path, tmp_path, device="cpu")


@pytest.mark.skipif(TORCH, reason="PyTorch is installed")
def test_missing_packages_are_named_with_the_command_that_installs_them(tmp_path: Path) -> None:
    (tmp_path / WEIGHTS).write_bytes(b"-")
    with pytest.raises(ModelError, match="make gpu"):
        TorchKokoro(tmp_path, tmp_path, device="cpu")


def test_a_card_also_holds_what_the_runtime_takes(tmp_path: Path) -> None:
    (tmp_path / WEIGHTS).write_bytes(bytes(1000))
    assert reservation(tmp_path, device="cuda:0").bytes(0) > reservation(tmp_path, device="cpu").bytes(0) > 1000


@pytest.mark.skipif(not TORCH, reason="needs `make gpu`")
async def test_the_program_speaks_in_a_process_of_its_own(tmp_path: Path) -> None:
    import torch

    (tmp_path / "config.json").write_text(json.dumps(SHAPE))
    torch.save({}, tmp_path / WEIGHTS)  # nothing to load: the weights stay random, the sound is noise
    np.zeros((510, 256), np.float32).tofile(tmp_path / "af_test.bin")
    kokoro = TorchKokoro(tmp_path, tmp_path, device="cpu", threads=2)
    try:
        pcm = await kokoro.speak([43, 44, 43], Style("af_test", 1.0), 0.0)
        assert pcm.dtype == np.float32 and len(pcm) > 600
        with pytest.raises(Exception, match="no_such_voice"):
            await kokoro.speak([43], Style("no_such_voice", 1.0), 0.0)
        assert len(await kokoro.speak([44], Style("af_test", 1.0), 0.0)) > 600
    finally:
        await kokoro.close()
