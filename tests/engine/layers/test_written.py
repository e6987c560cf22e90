"""A cache takes keys and values wherever their heads and tokens lie in memory."""

from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.gguf.formats import F32
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.tensor import Role, Tensor, leaf
from engine.kvcache.causal import CausalCache
from engine.layers.step import LayerCache, Pass, Step
from engine.runner.devices import open_devices
from engine.scheduler.plan import Planner
from engine.settings import EngineOptions
from tests.engine.scheduler.devices import place

DEVICES = ["host", *(d.name for d in list_devices())]
DIM, HEADS, T, CELLS = 16, 3, 5, 8

Split = Callable[[Tensor], tuple[Tensor, ...]]


def by_head(joint: Tensor) -> tuple[Tensor, ...]:
    """Each head's key, then its value: heads lie apart."""
    return ops.chunk_sections(joint.reshape(2 * DIM, HEADS, T), 0, (DIM, DIM))


def by_token(joint: Tensor) -> tuple[Tensor, ...]:
    """A token's keys, then its values: tokens lie apart, heads do not."""
    return ops.chunk_sections(joint.reshape(DIM, 2 * HEADS, T), 1, (HEADS, HEADS))


@pytest.mark.parametrize("split", [by_head, by_token])
@pytest.mark.parametrize("device", DEVICES)
def test_parts_of_a_joint_projection(device: str, split: Split) -> None:
    """What lies in the cache are the keys and values of each token, in order of heads."""
    joint = leaf("joint", F32, (2 * DIM * HEADS, T), Role.INPUT)
    k, v = split(joint)
    q = leaf("q", F32, (DIM, HEADS, T), Role.INPUT)
    p = Pass(T, T, (CELLS,))
    caches = [leaf(f"cache_{n}", F32, (DIM * HEADS, CELLS), Role.CACHE) for n in "kv"]
    out = p.attend(q, k, v, LayerCache(*caches, HEADS, 0, None), DIM**-0.5)
    rows = np.random.default_rng(1).standard_normal((T, 2 * DIM * HEADS)).astype(np.float32)
    axis, shape = (2, (T, HEADS, 2, DIM)) if split is by_head else (1, (T, 2, HEADS, DIM))
    want = np.moveaxis(rows.reshape(shape), axis, 0).reshape(2, T, HEADS * DIM)
    positions = np.arange(T, dtype=np.int32)
    step = Step(positions, positions, positions, (CausalCache(CELLS).start(positions, 0),))
    with ExitStack() as stack:
        backends = open_devices(EngineOptions(device=device), stack).backends
        placed = {tensor: place(tensor, backends[0]) for tensor in caches}
        planner = Planner(backends, placed)
        values = {q: np.zeros((1, T, HEADS, DIM), np.float32), joint: rows[None, None]}
        planner.plan(0, lambda: Graph.of([out])).run(p.fill(step) | values)
        for tensor, kept in zip(caches, want, strict=True):
            held = placed[tensor].buffer.read(0, kept.nbytes)
            np.testing.assert_array_equal(np.frombuffer(held, np.float32).reshape(T, -1), kept)
        planner.close()
        for at in placed.values():
            at.buffer.free()
