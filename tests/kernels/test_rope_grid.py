"""2-D rope of towers, pair by pair as each family defines it, in float64."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.gguf.formats import F32
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.rope import RopeParams, Sections, grid_table
from tests.kernels.harness import nmse, run
from tests.kernels.values import Floats, Operands

HEADS, GRID = 3, (5, 7)
Y, X = (np.ravel(places) for places in np.indices(GRID))
ZERO = np.zeros_like(Y)
Angle = Callable[[int, int, int, int], float]
"""The angle of pair i of a head of size d of the patch in row y and column x."""


@dataclass(frozen=True)
class Family:
    """`table` of a head's size, `neox` pairs or adjacent ones, and the definition."""

    table: Callable[[int], Floats]
    neox: bool
    angle: Angle


def qwen(i: int, d: int, y: int, x: int) -> float:
    j = i % (d // 4)
    return (y if i < d // 4 else x) * 1e4 ** (-4 * j / d)


def pixtral(i: int, d: int, y: int, x: int) -> float:
    j = i % (d // 4)
    return y * 1e4 ** (-4 * j / d) if i < d // 4 else x * 1e4 ** (-(4 * j + 2) / d)


def llama4(i: int, d: int, y: int, x: int) -> float:
    j = i % (d // 4)
    return (x + 1 if i < d // 4 else y + 1) * 1e4 ** (-4 * j / d)


def by_sections(d: int) -> Floats:
    sections = Sections((d // 4, d // 4, 0, 0), "vision")
    params = RopeParams(d, 1e4, neox=True, sections=sections)
    return params.table(np.stack([Y, X, ZERO, ZERO]).astype(np.int32))


FAMILIES = {
    "qwen": Family(lambda d: grid_table(Y, X, d), True, qwen),
    "qwen by sections": Family(by_sections, True, qwen),
    "pixtral": Family(lambda d: grid_table(Y, X, d, staggered=True), True, pixtral),
    "pixtral permuted": Family(lambda d: grid_table(Y, X, d, staggered=True), False, pixtral),
    "llama4": Family(lambda d: grid_table(X + 1, Y + 1, d), False, llama4),
}


def turned(x: Floats, neox: bool, angle: Angle) -> Floats:
    """x [n, heads, d], pair by pair."""
    d, out = x.shape[-1], np.empty_like(x)
    for t, (y_at, x_at) in enumerate(zip(Y.tolist(), X.tolist(), strict=True)):
        for i in range(d // 2):
            a, b = (i, i + d // 2) if neox else (2 * i, 2 * i + 1)
            c, s = np.cos(angle(i, d, y_at, x_at)), np.sin(angle(i, d, y_at, x_at))
            out[t, :, a] = x[t, :, a] * c - x[t, :, b] * s
            out[t, :, b] = x[t, :, a] * s + x[t, :, b] * c
    return out


@pytest.mark.sampled(3)
@pytest.mark.parametrize("d", [64, 72, 80, 88])
@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_families(either: OpenCLBackend, family: Family, d: int) -> None:
    made = Operands()
    x = made.make(F32, d, HEADS, len(Y))
    node = ops.rope(x, made.put(F32, family.table(d)), family.neox)
    got = run(either, node, made.values)[0]
    assert nmse(got, turned(made.exact(x)[0], family.neox, family.angle)) < 1e-12


def test_halves_on_their_own(either: OpenCLBackend) -> None:
    """Gemma 4: the first half of a head by x, the second by y, each of NeoX pairs."""
    d, made = 72, Operands()
    x = made.make(F32, d, HEADS, len(Y))
    params = RopeParams(d // 2, 100.0, neox=True)
    tables = [made.put(F32, params.table(p.astype(np.int32))) for p in (X, Y)]
    halves: list[Tensor] = [
        ops.rope(half, table, neox=True)
        for half, table in zip(ops.chunk(x, 0, d // 2), tables, strict=True)
    ]
    got = run(either, ops.concat(*halves, dim=0), made.values)[0]
    exact = made.exact(x)[0]
    want = [
        turned(exact[..., :36], True, lambda i, n, y, x: x * 100.0 ** (-2 * i / n)),
        turned(exact[..., 36:], True, lambda i, n, y, x: y * 100.0 ** (-2 * i / n)),
    ]
    assert nmse(got, np.concatenate(want, -1)) < 1e-12


def test_the_class_row_of_a_grid_stays() -> None:
    np.testing.assert_array_equal(grid_table(ZERO[:1], ZERO[:1], 8), [[1, 1, 1, 1, 0, 0, 0, 0]])
