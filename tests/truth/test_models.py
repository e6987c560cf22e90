"""Whole models on every device, against float32 transformers and llama.cpp on the same file.

Goldens: tests/goldens (make_truth.py, make_tiny.py). The tiny models are strict where the real ones
are blind: taking one token more or less into Gemma's window changes its logits by an NMSE of 1e-6,
the tiny model's by 4e-2.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.runner import load
from tests.goldens.tiny import ARCHITECTURES, tiny_tokens, write_tiny
from tests.truth.compare import nmse, perplexity_figures
from tests.truth.measure import GOLDENS, golden_context, measure

OPENCL = [
    pytest.param(info.name, marks=pytest.mark.device, id=info.name) for info in list_devices()
]
DEVICES = [*OPENCL, "host"]
MODELS = ("smollm2", "gemma3")
# On the first driver a short run fills the longest step, and Gemma's reaches beyond its window of
# 512; on others, and on the host, which is slow, it is a short one (the tiny model shows windows).
SHORT = {"smollm2": 512, "gemma3": 576}
SHORTER = {"smollm2": 96, "gemma3": 64}
LENGTHS = ["short", pytest.param("whole", marks=pytest.mark.full)]


@pytest.fixture
def model_path(name: str, request: pytest.FixtureRequest) -> Path:
    """The real file called `name`; asked for by name so that no test fetches the other one."""
    path: Path = request.getfixturevalue(f"{name}_path")
    return path


def positions_of(length: str, name: str, device: str) -> int:
    if length == "whole":
        return 2048
    return (SHORT if device == list_devices()[0].name else SHORTER)[name]


@pytest.mark.full_cases(r"\[(intel:0-gemma3|pocl:0-\w+|host-smollm2)-short\]")
@pytest.mark.model_file
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("device", DEVICES)
def test_logits_are_float32_transformers(
    device: str, name: str, length: str, model_path: Path
) -> None:
    with load(model_path, device=device, ctx=2048) as model:
        found = measure(model, golden_context(name), positions_of(length, name, device))
    print(f"{name} on {device}, {found}")
    assert found.nmse.overall <= 1e-4, found
    assert found.nmse.median <= 1e-4, found
    assert found.agreement >= 0.99, found
    assert not found.unexplained, found
    # The sketch measures what the few positions kept whole (as float16) say directly.
    for exact, estimated in found.exact:
        assert estimated == pytest.approx(exact, rel=0.8, abs=2e-7)


@pytest.mark.full
@pytest.mark.model_file
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("device", OPENCL)
def test_activations_of_8_bits(device: str, name: str, model_path: Path) -> None:
    """A tolerance of their own: with 12 bits the NMSE is 2e-6."""
    with load(model_path, device=device, ctx=2048, activations=8) as model:
        found = measure(model, golden_context(name), 2048)
    print(f"{name} on {device}, {found}")
    assert 1e-5 < found.nmse.overall <= 5e-3, found
    assert found.agreement >= 0.96, found
    assert not found.unexplained, found


@pytest.mark.full
@pytest.mark.model_file
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("device", OPENCL)
def test_as_near_to_llama_cpp_as_float32_is(
    device: str, name: str, model_path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "ours.npz"
    words = ["perplexity", str(model_path), str(GOLDENS / "text.txt"), "--ctx", "512"]
    words += ["--top-k", "64", "--out", str(out), "--device", device]
    subprocess.run([sys.executable, "-m", "app", *words], check=True, timeout=540)
    with np.load(out) as ours, np.load(GOLDENS / f"{name}-perplexity.npz") as golden:
        found = perplexity_figures(ours, golden)
    print(f"{name} on {device}, {found}")
    assert found.agreement >= found.f32_agreement - 0.01, found
    assert found.kl <= found.f32_kl + 0.002, found


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("device", DEVICES)
def test_tiny_model_is_float32_transformers(device: str, architecture: str, tmp_path: Path) -> None:
    with np.load(GOLDENS / f"tiny-{architecture}.npz") as golden:
        tokens, reference = golden["tokens"], golden["logits"]
    np.testing.assert_array_equal(tokens, tiny_tokens(architecture))
    path = write_tiny(tmp_path / "tiny.gguf", architecture)
    with load(path, device=device, ctx=64) as model:
        blocks = [logits for _, logits in model.logits(tokens.tolist())]
    logits = np.concatenate(blocks)
    assert logits.shape == reference.shape
    assert nmse(logits, reference) <= 1e-5
    worst = max(nmse(*pair) for pair in zip(logits, reference, strict=True))
    assert worst <= 1e-4
