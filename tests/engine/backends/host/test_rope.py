"""Rotation as multiplication by a complex number."""

import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.gguf.formats import F16, F32
from engine.graph import ops
from engine.graph.tensor import Role, leaf
from tests.kernels.harness import nmse, run


@pytest.mark.parametrize(("dim", "n_rot"), [(2, 2), (8, 8), (10, 6)])
@pytest.mark.parametrize("neox", [False, True])
@pytest.mark.parametrize("fmt", [F32, F16], ids=str)
def test_pairs_turn_by_their_angle(
    host: HostBackend, dim: int, n_rot: int, neox: bool, fmt
) -> None:
    rng = np.random.default_rng(11)
    x, table = leaf("x", fmt, (dim, 3, 5), Role.INPUT), leaf("t", F32, (n_rot, 5), Role.INPUT)
    values = rng.standard_normal((1, 5, 3, dim)).astype(fmt.dtype)
    angles = rng.uniform(-9, 9, (5, n_rot // 2))
    tables = np.hstack([np.cos(angles), np.sin(angles)]).astype(np.float32)
    want = values[0].astype(np.float64)
    for i in range(n_rot // 2):
        p, q = (i, i + n_rot // 2) if neox else (2 * i, 2 * i + 1)
        turned = (want[..., p] + 1j * want[..., q]) * np.exp(1j * angles[:, i])[:, None]
        want[..., p], want[..., q] = turned.real, turned.imag
    got = run(host, ops.rope(x, table, neox), {x: values, table: tables})
    assert got.dtype == np.float32
    assert nmse(got[0], want) < 1e-12
    assert np.array_equal(got[0, ..., n_rot:], values[0, ..., n_rot:])
