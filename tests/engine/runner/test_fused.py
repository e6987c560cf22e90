"""Whole models, fused and not: the same logits, whichever fusions are on."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

from engine.backends.opencl.drivers.device import list_devices
from engine.backends.opencl.lowering.fusions import (
    EXPERT_PATTERNS,
    PATTERNS,
    STATE_PATTERNS,
    attention_merged,
    attention_stored,
    store_both,
)
from engine.backends.opencl.lowering.norm_fusions import (
    norm_add_quantize,
    norm_also_quantize,
    norm_quantize,
)
from engine.backends.opencl.lowering.rewrite import Pattern
from engine.models.build import StepShape
from engine.runner.loading import load_model
from engine.settings import EngineOptions
from tests.goldens.tiny import ARCHITECTURES, tiny_tokens, write_tiny
from tests.kernels.conftest import pytest_generate_tests
from tests.kernels.harness import nmse

__all__ = ["pytest_generate_tests"]

# Two formats among q, k and v, and another for gate and up.
FORMATS = {"attn_v": Type.Q8_0, "attn_": Type.Q5_0, "ffn_": Type.Q4_1}
# Patterns that these have no use for; of other architectures nothing is said here.
# Llama has no norms behind products, and heads too small for blocks; Gemma no plain residuals. Both
# have too few tiles of gate and up where cores are many, and two products behind their first norms.
UNUSED = {
    "llama": {
        "norm_add",
        "norm_add_norm_quantize",
        "attention_quantize",
        "matmul_bias",
        "matmul_gated",
        "norm_matmul",
        "norm_gated",
        "feed_chain",
    },
    "gemma3": {
        "matmul_add",
        "matmul_bias",
        "matmul_gated",
        "norm_matmul",
        "norm_gated",
        "feed_chain",
    },
}
# Of layers with experts or a state, without rope, or whose norms are read elsewhere too, which both
# lack: rows of tests/engine/models/text tell how many launches they take.
ELSEWHERE = (
    *STATE_PATTERNS,
    *EXPERT_PATTERNS,
    norm_also_quantize,
    norm_add_quantize,
    store_both,
    attention_merged,  # of lanes
    attention_stored,
)
# What would do the same with one result more.
STANDS_IN = {norm_quantize: norm_also_quantize}
USED = [
    pytest.param(architecture, pattern, id=f"{architecture}-{pattern.name}")
    for architecture, unused in UNUSED.items()
    for pattern in PATTERNS
    if pattern.name not in unused and pattern not in ELSEWHERE
]


@pytest.fixture(params=ARCHITECTURES)
def architecture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(architecture: str, tmp_path: Path) -> Path:
    """A tiny model whose matrices are quantised."""
    return write_tiny(tmp_path / "tiny.gguf", architecture, FORMATS)


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    """A device of every driver in turn."""
    return str(request.param)


def logits(path: Path, device: str, tokens: list[int]) -> tuple[np.ndarray, int]:
    """Of a prompt in two parts and of single tokens; and the launches that one of these takes."""
    with closing(load_model(path, EngineOptions(device=device, ctx=64))) as model:
        step = model.stepper.step
        parts = [step(tokens[:30], 0, range(30)), step(tokens[30:33], 30, range(3))]
        parts += [step([t], i, [0]) for i, t in enumerate(tokens[33:36], 33)]
        cells = tuple(cache.n_cells for cache in model.built.caches.caches)
        _, graph = model.built.build(StepShape(1, 1, cells))
        splits = model.stepper.planner.outline(graph).splits
        return np.concatenate(parts), sum(bool(t.src) for part in splits for t in part.nodes)


def test_all_at_once(
    path: Path, backend: str, architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = tiny_tokens(architecture).tolist()
    monkeypatch.setenv("CUTAWAY_FUSE", "none")
    want, single = logits(path, backend, tokens)
    monkeypatch.setenv("CUTAWAY_FUSE", "all")
    got, fused = logits(path, backend, tokens)
    assert fused < 0.7 * single
    assert nmse(got, want) < 1e-7


@pytest.mark.sampled(3)
def test_all_at_once_by_lanes(
    path: Path, backend: str, architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the manner of GPUs groups make norms themselves, and attention turns and stores."""
    monkeypatch.setenv("CUTAWAY_LANES", "1")
    monkeypatch.setenv("CUTAWAY_TRIALS", "0")
    tokens = tiny_tokens(architecture).tolist()
    monkeypatch.setenv("CUTAWAY_FUSE", "none")
    want, single = logits(path, backend, tokens)
    monkeypatch.setenv("CUTAWAY_FUSE", "all")
    got, fused = logits(path, backend, tokens)
    assert fused < 0.55 * single
    assert nmse(got, want) < 1e-6  # sums in another order turn roundings to 12 bits


@pytest.fixture(scope="module")
def whole() -> dict[str, tuple[np.ndarray, int]]:
    """Of each architecture, with every fusion."""
    return {}


@pytest.mark.each_value
@pytest.mark.parametrize(("architecture", "pattern"), USED)
def test_all_but_one(
    path: Path,
    architecture: str,
    pattern: Pattern,
    whole: dict[str, tuple[np.ndarray, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = next((d.name for d in list_devices() if d.default), None)
    if device is None:
        pytest.skip("no OpenCL device")
    tokens = tiny_tokens(architecture).tolist()
    if architecture not in whole:
        whole[architecture] = logits(path, device, tokens)
    want, fused = whole[architecture]
    left_out = (pattern, STANDS_IN.get(pattern))
    others = ",".join(p.name for p in PATTERNS if p not in left_out)
    monkeypatch.setenv("CUTAWAY_FUSE", others)
    got, more = logits(path, device, tokens)
    assert more > fused
    assert nmse(got, want) < 1e-7
