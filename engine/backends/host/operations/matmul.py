"""Matrix products in float32 (BLAS)."""

import numpy as np

from engine.backends.host.operand import Operand
from engine.graph.tensor import Tensor

# Weights are converted this many bytes of float32 at a time, so that they stay in the cache.
_PANEL_BYTES = 4 << 20


def matmul(node: Tensor, out: Operand, a: Operand, b: Operand) -> None:
    """out[m, n] = sum_k a[k, m] * b[k, n]; each batch of a serves b2/a2 (b3/a3) batches of b."""
    a3, a2, n_rows = a.raw.shape[:3]
    x = b.load()  # [b3, b2, N, K]
    b3, b2, n, k = x.shape
    x = x.reshape(a3, b3 // a3, a2, b2 // a2, n, k)
    y = out.raw.reshape(a3, b3 // a3, a2, b2 // a2, n, n_rows)
    step = max(1, _PANEL_BYTES // (4 * a3 * a2 * k))
    for start in range(0, n_rows, step):
        rows = slice(start, min(start + step, n_rows))
        panel = a.load(np.s_[:, :, rows])[:, None, :, None]  # [a3, 1, a2, 1, rows, K]
        y[..., rows] = x @ panel.swapaxes(-1, -2)


def matmul_id(node: Tensor, out: Operand, a: Operand, b: Operand, ids: Operand) -> None:
    """out[:, u, t] = a[:, :, ids[u, t]]^T b[:, u mod s, t], one expert after the other.

    Zeros where an id names none.
    """
    x = b.load((0,))  # [T, s, K]
    chosen = ids.load((0, 0))  # [T, U]
    for expert in np.unique(chosen):
        t, u = np.nonzero(chosen == expert)
        known = 0 <= expert < a.raw.shape[1]
        out.raw[0, t, u] = x[t, u % x.shape[1]] @ a.load((0, expert)).T if known else 0
