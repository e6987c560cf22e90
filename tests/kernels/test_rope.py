"""rope against complex numbers in NumPy."""

import numpy as np
import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.gguf.formats import F32
from engine.graph import ops
from engine.graph.tensor import Tensor
from tests.kernels.harness import nmse, run
from tests.kernels.values import Floats, Operands


def table_of(made: Operands, n_rot: int, n_tokens: int) -> tuple[Tensor, Floats]:
    """Cosines and sines of random angles, and the angles' numbers as stored."""
    angles = made.rng.uniform(-9, 9, (n_tokens, n_rot // 2))
    table = made.put(F32, np.concatenate([np.cos(angles), np.sin(angles)], axis=1))
    stored = made.exact(table)[0, 0]
    return table, stored[:, : n_rot // 2] + 1j * stored[:, n_rot // 2 :]


def turned(x: Floats, turns: Floats, neox: bool) -> Floats:
    """Each pair as a complex number, times its turn."""
    half, out = turns.shape[1], x.copy()
    first = np.s_[..., :half] if neox else np.s_[..., 0 : 2 * half : 2]
    second = np.s_[..., half : 2 * half] if neox else np.s_[..., 1 : 2 * half : 2]
    pairs = (x[first] + 1j * x[second]) * turns[None, :, None, :]
    out[first], out[second] = pairs.real, pairs.imag
    return out


@pytest.mark.parametrize("neox", [False, True])
@pytest.mark.parametrize(
    ("dim", "n_rot", "heads", "n_tokens"),
    [(64, 64, 9, 1), (256, 256, 4, 3), (80, 48, 3, 7), (34, 34, 2, 5), (7, 6, 1, 70), (5, 2, 2, 1)],
)
def test_pairs(
    either: OpenCLBackend, dim: int, n_rot: int, heads: int, n_tokens: int, neox: bool
) -> None:
    made = Operands()
    x = made.make(F32, dim, heads, n_tokens)
    table, turns = table_of(made, n_rot, n_tokens)
    got = run(either, ops.rope(x, table, neox), made.values)
    assert nmse(got, turned(made.exact(x), turns, neox)) < 1e-12


@pytest.mark.parametrize("neox", [False, True])
def test_heads_inside_wider_rows(either: OpenCLBackend, neox: bool) -> None:
    made = Operands()
    whole = made.make(F32, 300, 6)
    x = whole.view(40, (64, 4, 6), (64 * 4, whole.strides[1]))
    table, turns = table_of(made, 64, 6)
    got = run(either, ops.rope(x, table, neox), made.values)
    assert nmse(got, turned(made.exact(x), turns, neox)) < 1e-12
