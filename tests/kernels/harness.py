"""Runs nodes on a backend between guard bytes, and measures how far they are from the truth.

x = leaf("x", F32, (64, 3), Role.INPUT)
got = run(backend, ops.silu(x), {x: values})        # values[3, 64] -> got[3, 64]
assert nmse(got, reference) < 1e-7
"""

from collections.abc import Mapping, Sequence

import numpy as np

from engine.device.backend import Backend
from engine.graph.tensor import Tensor
from engine.selftest import guarded
from engine.selftest.guarded import Array, GuardedStorage, as_bytes, read, refused

__all__ = ["Array", "GuardedStorage", "as_bytes", "nmse", "product_error", "read", "run", "run_all"]


def run(
    backend: Backend,
    node: Tensor,
    values: Mapping[Tensor, Array],
    *,
    matmul_only: bool = False,
    lower: bool = True,
    times: int = 1,
) -> Array:
    """As `run_all`, for one node."""
    return run_all(backend, [node], values, matmul_only=matmul_only, lower=lower, times=times)[0]


def run_all(
    backend: Backend,
    wanted: Sequence[Tensor],
    values: Mapping[Tensor, Array],
    *,
    matmul_only: bool = False,
    lower: bool = True,
    fused: bool = False,
    times: int = 1,
) -> list[Array]:
    """As the self test does (see `guarded.run_all`), of nodes that the backend must take."""
    declined = refused(backend, wanted, matmul_only=matmul_only)
    assert declined is None, f"{backend.name}: {declined}"
    return guarded.run_all(
        backend,
        wanted,
        values,
        matmul_only=matmul_only,
        lower=lower,
        fused=fused,
        times=times,
    )


def nmse(x: Array, ref: Array) -> float:
    """sum((x - ref)^2) / sum(ref^2) in float64; infinite where x is not a number."""
    got, want = np.asarray(x, np.float64), np.asarray(ref, np.float64)
    assert got.shape == want.shape, (got.shape, want.shape)
    if not np.isfinite(got).all():
        return float("inf")
    return float(np.square(got - want).sum() / max(np.square(want).sum(), 1e-300))


def product_error(got: Array, x: Array, w: Array) -> float:
    """NMSE of x [..., N, K] times rows w [M, K].

    Where terms cancel, their sum tells nothing about how they were rounded: it is then held against
    what terms of random signs would make.
    """
    wide, rows = np.asarray(x, np.float64), np.asarray(w, np.float64)
    want = wide @ rows.T
    sums, terms = np.square(want).sum(), (np.square(wide) @ np.square(rows).T).sum()
    return nmse(got, want) * float(sums / max(sums, terms, 1e-300))
