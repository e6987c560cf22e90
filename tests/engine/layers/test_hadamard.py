"""Rotated caches: the same attention, and what one large channel costs."""

from contextlib import ExitStack

import numpy as np
import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.gguf.formats import F16, F32, FORMATS, Q4_0, Q8_0, Format
from engine.graph.graph import Graph
from engine.graph.tensor import Role, leaf
from engine.kvcache.causal import CausalCache
from engine.layers import hadamard
from engine.layers.step import LayerCache, Pass, Step
from engine.runner.devices import open_devices
from engine.scheduler.plan import Planner
from engine.settings import EngineOptions
from tests.engine.scheduler.devices import place
from tests.kernels.harness import nmse

DEVICES = ["host", *(d.name for d in list_devices())]
T, CELLS, HEADS, KV_HEADS = 24, 256, 4, 2


@pytest.mark.parametrize(
    ("dim", "size"), [(64, 64), (256, 32), (96, 32), (80, 16), (128, 64), (32, 32), (7, 1)]
)
def test_blocks_are_powers_of_two(dim: int, size: int) -> None:
    assert hadamard.block_size(dim) == size


def test_the_matrix_is_its_own_inverse() -> None:
    """Against the definition by bits (Sylvester): the sign is the parity of i and j."""
    h = hadamard.matrix(64)
    signs = [[(-1) ** (i & j).bit_count() for j in range(64)] for i in range(64)]
    np.testing.assert_array_equal(h, np.float32(1 / 8) * np.array(signs, np.float32))
    np.testing.assert_array_equal(h @ h, np.eye(64, dtype=np.float32))


def test_only_where_it_helps() -> None:
    assert [fmt for fmt in (F32, F16, Q8_0, Q4_0) if hadamard.helps(fmt)] == [Q4_0]
    assert not any(hadamard.helps(fmt) for fmt in FORMATS.values() if not fmt.quantized)


def outliers(rng: np.random.Generator, dim: int, heads: int) -> np.ndarray:
    """[T, heads, dim], one channel of a head ten times as large, as keys of real models are."""
    values = rng.standard_normal((T, heads, dim)).astype(np.float32)
    values[:, :, 3] *= 10
    return values


def attended(
    device: str, fmt: Format, dim: int, fused: bool, values: list[np.ndarray]
) -> np.ndarray:
    """What a layer's attention gives for T tokens in an empty cache."""
    p = Pass(T, T, (CELLS,))
    names = [("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)]
    q, k, v = (leaf(name, F32, (dim, heads, T), Role.INPUT) for name, heads in names)
    caches = [leaf(f"cache_{n}", fmt, (dim * KV_HEADS, CELLS), Role.CACHE) for n in "kv"]
    out = p.attend(q, k, v, LayerCache(*caches, KV_HEADS, 0, None), dim**-0.5)
    positions = np.arange(T, dtype=np.int32)
    cache = CausalCache(CELLS)
    step = Step(positions, positions, positions, (cache.start(positions, 0),))
    with ExitStack() as stack:
        backends = open_devices(EngineOptions(device=device), stack).backends
        placed = {tensor: place(tensor, backends[0]) for tensor in caches}
        planner = Planner(backends, placed, fused=fused)
        plan = planner.plan(0, lambda: Graph.of([out]))
        given = dict(zip((q, k, v), (x[None] for x in values), strict=True))
        (got,) = plan.run(p.fill(step) | given)
        planner.close()
        for at in placed.values():
            at.buffer.free()
    return np.array(got).reshape(T, -1)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("dim", [32, 64, 96])
@pytest.mark.parametrize("device", DEVICES)
def test_attention_over_a_rotated_cache(
    device: str, dim: int, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(dim)
    values = [outliers(rng, dim, heads) for heads in (HEADS, KV_HEADS, KV_HEADS)]
    values[0] /= 10  # queries are of the size that makes soft, not hard, choices
    exact = attended("host", F32, dim, True, values)
    rotated = nmse(attended(device, Q4_0, dim, fused, values), exact)
    monkeypatch.setattr(hadamard, "helps", lambda fmt: False)
    plain = nmse(attended(device, Q4_0, dim, fused, values), exact)
    assert rotated < plain / 3
    assert rotated < 0.02
