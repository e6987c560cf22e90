"""Sums, means, variances and orders of rows."""

from math import fsum

import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.gguf.formats import F16, F32
from engine.graph import ops
from tests.engine.backends.host.operands import ARRANGED, FLOATS, assert_near
from tests.kernels.harness import run
from tests.kernels.values import Operands


def variance(row: list[float]) -> float:
    mean = fsum(row) / len(row)
    return fsum((v - mean) ** 2 for v in row) / len(row)


REDUCED = {
    ops.sum_rows: fsum,
    ops.mean: lambda row: fsum(row) / len(row),
    ops.variance: variance,
    ops.stddev: lambda row: variance(row) ** 0.5,
}


@pytest.mark.parametrize("op", REDUCED, ids=lambda op: op.__name__)
@pytest.mark.parametrize("fmt", FLOATS, ids=str)
@pytest.mark.parametrize("arranged", ARRANGED, ids=lambda make: make.__name__)
def test_each_row_to_one_number(host: HostBackend, op, fmt, arranged) -> None:
    """f32 whatever the type is."""
    x = Operands(30)
    a = arranged(x, fmt, 5)
    want = np.apply_along_axis(lambda row: REDUCED[op](row.tolist()), -1, x.exact(a))[..., None]
    assert_near(run(host, op(a), x.values), want)


def test_a_long_row_loses_nothing(host: HostBackend) -> None:
    x = Operands()
    a = x.put(F32, np.concatenate([[2.0**24], np.ones(1000)]))
    assert run(host, ops.sum_rows(a), x.values).reshape(-1).tolist() == [2**24 + 1000]


def test_squares_of_halves_do_not_overflow(host: HostBackend) -> None:
    x = Operands()
    a = x.put(F16, np.array([1000.0, -1000.0]))
    assert run(host, ops.variance(a), x.values).reshape(-1).tolist() == [1e6]
    assert run(host, ops.stddev(a), x.values).reshape(-1).tolist() == [1e3]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("arranged", ARRANGED, ids=lambda make: make.__name__)
def test_argsort(host: HostBackend, descending: bool, arranged) -> None:
    x = Operands(31)
    a = arranged(x, F32)
    got = run(host, ops.argsort(a, descending=descending), x.values)
    assert got.dtype == np.int32
    for i in np.ndindex(got.shape[:-1]):
        row = x.exact(a)[i].tolist()
        assert got[i].tolist() == sorted(range(7), key=row.__getitem__, reverse=descending)


def test_equal_values_keep_their_order_and_nan_is_last(host: HostBackend) -> None:
    x = Operands()
    row = np.float32([2, np.nan, -0.0, 0.0, np.inf, 2, -np.inf, np.nan, 0])
    a = x.put(F32, row)
    up, down = (
        run(host, ops.argsort(a, descending=d), x.values).reshape(-1).tolist()
        for d in (False, True)
    )
    assert up == [6, 2, 3, 8, 0, 5, 4, 1, 7]
    assert down == [4, 0, 5, 2, 3, 8, 6, 1, 7]


def test_the_best_come_with_their_indices_and_nan_is_first(host: HostBackend) -> None:
    x = Operands()
    a = x.put(F32, np.float32([2, np.nan, -0.0, 0.0, np.inf, 2, -np.inf, np.nan, 0]))
    values, ids = run(host, ops.best(a, 9), x.values).reshape(2, 9)
    assert ids.tolist() == [1, 7, 4, 0, 5, 2, 3, 8, 6]
    assert values[2:].tolist() == [np.inf, 2, 2, 0, 0, 0, -np.inf]
    assert np.isnan(values[:2]).all()


@pytest.mark.parametrize("k", [1, 3, 7])
@pytest.mark.parametrize("arranged", ARRANGED, ids=lambda make: make.__name__)
def test_top_k(host: HostBackend, k: int, arranged) -> None:
    """The largest first, in a view of all of the order; a copy of it is packed."""
    x = Operands(32)
    a = arranged(x, F32)
    order = ops.top_k(a, k)
    assert order.strides[1] == 7 * 4
    for node in (order, ops.duplicate(order)):
        got = run(host, node, x.values)
        assert got.shape == (2, 3, 5, k)
        for i in np.ndindex(got.shape[:-1]):
            assert got[i].tolist() == np.argsort(-x.exact(a)[i])[:k].tolist()
