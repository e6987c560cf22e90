"""What carries a state: with the write of its slot one launch, unless others read that state."""

from collections.abc import Callable

import numpy as np
import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.gguf.formats import F32, I32
from engine.graph import ops
from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor
from engine.selftest.operands import Operands
from tests.kernels.harness import nmse, run_all
from tests.kernels.test_fuse import lowered_ops

SLOTS, SOURCE, TARGET, TOKENS, REAL = 4, 3, 1, 6, 5


def conv(o: Operands, state: Tensor, at: Tensor) -> Tensor:
    x, w = o.make(F32, 24, TOKENS), o.make(F32, 4, 24)
    return ops.causal_conv(x, w, o.make(F32, 24), state, at, silu=True)


def delta(o: Operands, state: Tensor, at: Tensor) -> Tensor:
    q, k, v = (o.make(F32, 8, heads, TOKENS) for heads in (2, 2, 4))
    g, beta = o.put(F32, -np.ones((TOKENS, 4))), o.make(F32, 4, TOKENS)
    return ops.delta_net(q, k, v, g, beta, state, at, eps=1e-6, tiled=True)


def scan(o: Operands, state: Tensor, at: Tensor) -> Tensor:
    x, b, c = o.make(F32, 8, 4, TOKENS), o.make(F32, 16, 1, TOKENS), o.make(F32, 16, 1, TOKENS)
    step, a = o.put(F32, np.full((TOKENS, 4), 0.3)), o.put(F32, -np.ones((4, 1)))
    return ops.ssm_scan(x, step, b, c, a, o.make(F32, 4), state, at)


def shift(o: Operands, state: Tensor, at: Tensor) -> Tensor:
    return ops.token_shift(o.make(F32, 24, TOKENS), o.make(F32, 24, 1, 1), state, at)


def wkv(o: Operands, state: Tensor, at: Tensor) -> Tensor:
    q, k, v, n, a = (o.make(F32, 8, 4, TOKENS) for _ in range(5))
    g = o.put(F32, -np.ones((TOKENS, 4, 8)))
    return ops.wkv(q, k, v, g, state, at, erased=(n, a), eps=1e-24)


MADE: dict[Op, tuple[Callable[..., Tensor], int]] = {
    Op.CAUSAL_CONV: (conv, 3 * 24),
    Op.DELTA_NET: (delta, 8 * 8 * 4),
    Op.SSM_SCAN: (scan, 8 * 16 * 4),
    Op.TOKEN_SHIFT: (shift, 24),
    Op.WKV: (wkv, 8 * 8 * 4),
}


def stored(op: Op) -> tuple[Operands, Tensor, Tensor, Tensor]:
    """Operands, the packed result, its columns of tokens, and the cache with the new state."""
    o, (make, size) = Operands(), MADE[op]
    cache = o.make(F32, size, SLOTS, role=Role.CACHE)
    packed = make(o, cache, o.put(I32, np.array([SOURCE, REAL])))
    tail = packed.view(packed.strides[1] * TOKENS, (size, 1))
    kept = ops.set_rows(cache, tail, o.put(I32, np.array([TARGET])))
    return o, packed, packed.view(0, (packed.shape[0], TOKENS)), kept


@pytest.mark.parametrize("op", MADE)
def test_the_state_goes_straight_into_its_slot(backend: OpenCLBackend, op: Op) -> None:
    o, packed, columns, kept = stored(op)
    used = ops.scale(columns, 2.0)
    assert lowered_ops(backend, [kept, used], [used]) == [op, Op.SCALE]
    single = run_all(backend, [kept, used], o.values)
    together = run_all(backend, [kept, used], o.values, fused=True)
    for got, want in zip(together, single, strict=True):
        assert nmse(got, want) == 0
    cache, others = o.values[kept.storage].reshape(SLOTS, -1), [i for i in range(4) if i != TARGET]
    rows = together[0].reshape(SLOTS, -1)
    assert np.array_equal(rows[others], cache[others])
    assert not np.array_equal(rows[TARGET], cache[TARGET])


@pytest.mark.parametrize("op", MADE)
def test_a_state_that_somebody_else_reads_stays_where_it_was(
    backend: OpenCLBackend, op: Op
) -> None:
    _, packed, columns, kept = stored(op)
    rest = packed.view(packed.strides[1] * (packed.shape[1] - 1), (packed.shape[0], 1))
    read = ops.scale(rest, 2.0)
    assert Op.SET_ROWS in lowered_ops(backend, [kept, read], [read])
    # A probe reads all of it.
    assert Op.SET_ROWS in lowered_ops(backend, [kept, columns], [packed])


@pytest.mark.parametrize("op", MADE)
def test_padding_is_not_read(either: OpenCLBackend, op: Op) -> None:
    o, packed, columns, kept = stored(op)
    (want,) = run_all(either, [packed], o.values)
    for values in o.values.values():
        if len(values) == TOKENS:
            values[REAL:] = np.nan
    (got,) = run_all(either, [packed], o.values)
    assert np.array_equal(got, want)
    assert not got.reshape(-1, packed.shape[0])[REAL:TOKENS].any()


def test_decays_and_steps_are_made_on_the_way(backend: OpenCLBackend) -> None:
    """What products give goes in; what bounds steps from above, or is no row, stays outside."""
    o = Operands()
    cache, at = o.make(F32, 8 * 8 * 4, SLOTS, role=Role.CACHE), o.put(I32, np.array([-1, REAL]))
    q, k, v = (o.make(F32, 8, heads, TOKENS) for heads in (2, 2, 4))
    alpha, beta = o.make(F32, 4, TOKENS), ops.sigmoid(o.make(F32, 4, TOKENS))
    for dt, a in ((o.make(F32, 4), o.make(F32, 4)), (o.make(F32, 1), o.make(F32, 4))):
        g = ops.mul(ops.softplus(ops.add(alpha, dt)), a)
        rule = ops.delta_net(q, k, v, g, beta, cache, at, eps=1e-6, tiled=True)
        alone = dt.nelements == 4
        assert (lowered_ops(backend, [rule], [rule]) == [Op.DELTA_NET]) == alone
    x, b = o.make(F32, 8, 4, TOKENS), o.make(F32, 8, 1, TOKENS)
    for most in (float("inf"), 1.0):
        steps = ops.clamp(ops.softplus(ops.add(alpha, o.make(F32, 4))), 0.1, most)
        made = ops.ssm_scan(x, steps, b, b, o.make(F32, 1, 4), None, cache, at)
        assert (lowered_ops(backend, [made], [made]) == [Op.SSM_SCAN]) == (most > 1)
