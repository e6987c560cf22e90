"""Activations of 8 bits: chosen at load, used for prompts alone."""

from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.errors import BadSetting, NeedsReload
from engine.runner import load
from engine.runner.placing.move import move
from engine.settings import ActivationBits
from tests.goldens.tiny import tiny_tokens, write_tiny
from tests.kernels.harness import nmse

CPUS = [d.name for d in list_devices() if d.traits.is_cpu and d.traits.vector_ints >= 8]
pytestmark = pytest.mark.device


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Matrices of nibbles, and heads of whole blocks."""
    kinds = dict.fromkeys(("attn_", "ffn_"), gguf.GGMLQuantizationType.Q4_1)
    return write_tiny(tmp_path_factory.mktemp("bits") / "tiny.gguf", "gemma3", kinds)


def logits(path: Path, device: str, bits: ActivationBits) -> tuple[np.ndarray, np.ndarray]:
    """Of a prompt, and of the token behind a prompt of one."""
    tokens = tiny_tokens("gemma3").tolist()
    with load(path, device=device, ctx=64, activations=bits) as model:
        step = model.loaded.stepper.step
        alone = [step(tokens[i : i + 1], i, [0]) for i in range(2)]
        model.loaded.stepper.forget(0)
        return step(tokens[:30], 0, range(30)), np.concatenate(alone)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("device", CPUS)
def test_prompts_are_read_with_8_bits_and_tokens_with_12(path: Path, device: str) -> None:
    prompt, alone = logits(path, device, 12)
    coarse, same = logits(path, device, 8)
    assert 1e-6 < nmse(coarse, prompt) < 5e-3
    np.testing.assert_array_equal(same, alone)


def test_other_bits_are_refused(path: Path) -> None:
    with pytest.raises(BadSetting, match="activations.*10.*12 or 8"):
        load(path, device="host", activations=10)


def test_an_open_model_keeps_its_bits(path: Path) -> None:
    with (
        load(path, device="host", ctx=64) as model,
        pytest.raises(NeedsReload, match="--activations"),
    ):
        move(model.loaded, replace(model.loaded.options, activations=8))
