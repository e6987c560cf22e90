"""RMS norm, row by row in float64."""

import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.gguf.formats import F32
from engine.graph import ops
from engine.graph.tensor import Role, leaf
from tests.kernels.harness import nmse, run


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (64, 3, 2), (577, 2)], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_definition(host: HostBackend, shape: tuple[int, ...], weighted: bool) -> None:
    rng = np.random.default_rng(9)
    x, w = leaf("x", F32, shape, Role.INPUT), leaf("w", F32, shape[:1], Role.WEIGHT)
    values = (rng.standard_normal(x.shape[::-1]) * 30).astype(np.float32)
    weight = rng.standard_normal(shape[0]).astype(np.float32)
    want = np.empty(values.shape)
    for row in np.ndindex(values.shape[:-1]):
        v = values[row].tolist()
        length = (sum(e * e for e in v) / len(v) + 1e-5) ** 0.5
        want[row] = np.array(v) / length * (weight if weighted else 1)
    given = {x: values, w: weight} if weighted else {x: values}
    got = run(host, ops.rms_norm(x, w if weighted else None, 1e-5), given)
    assert nmse(got, want) < 1e-12


def test_a_row_of_zeros_and_one_whose_square_passes_float32(host: HostBackend) -> None:
    x = leaf("x", F32, (2, 2), Role.INPUT)
    values = np.float32([[0, 0], [1e25, -1e25]])
    got = run(host, ops.rms_norm(x, None, 1e-6), {x: values}).reshape(2, 2)
    assert np.allclose(got, [[0, 0], [1, -1]], rtol=1e-6)


def test_heads_of_a_view_are_normalised_on_their_own(host: HostBackend) -> None:
    x = leaf("x", F32, (12, 3), Role.INPUT)
    values = np.random.default_rng(10).standard_normal((1, 1, 3, 12)).astype(np.float32)
    heads = x.view(4 * 4, (4, 2, 3), (16, 48))  # columns 4 to 11
    got = run(host, ops.rms_norm(heads, None, 0.0), {x: values})
    part = values[0, 0, :, 4:].reshape(3, 2, 4).astype(float)
    assert nmse(got[0], part / np.sqrt((part**2).mean(-1, keepdims=True))) < 1e-12
