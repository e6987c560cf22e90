"""argsort, top_k and best against NumPy: the very same indices."""

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backends.opencl.backend import OpenCLBackend
from engine.gguf.formats import F32
from engine.graph import ops
from engine.graph.tensor import Tensor
from tests.kernels.harness import Array, run
from tests.kernels.values import Floats, Operands

# Around what a work-group sorts, blocks, and both numbers of merges that are possible.
LENGTHS = [1, 2, 31, 33, 64, 128, 255, 256, 257, 500, 512, 513, 1000, 4096, 4097, 9000]


def order(row: Floats, descending: bool) -> NDArray[np.int64]:
    """Stable, -0 like 0, NaN last."""
    keys = np.where(np.isnan(row), 0.0, -row if descending else row)
    return np.lexsort((keys, np.isnan(row)))  # the last key counts most


def check(backend: OpenCLBackend, x: Tensor, made: Operands) -> None:
    for descending in (False, True):
        got = run(backend, ops.argsort(x, descending=descending), made.values)
        np.testing.assert_array_equal(got, expected(made.exact(x), descending))


def expected(x: Floats, descending: bool) -> Array:
    rows = x.reshape(-1, x.shape[-1])
    return np.array([order(row, descending) for row in rows]).reshape(x.shape)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("n", LENGTHS)
def test_rows_of_any_length(either: OpenCLBackend, n: int) -> None:
    made = Operands()
    check(either, made.make(F32, n, 3), made)


def test_a_vocabulary(either: OpenCLBackend) -> None:
    made = Operands()
    check(either, made.make(F32, 262144), made)


@pytest.mark.parametrize("n", [33, 256, 1000])
def test_equal_values_keep_their_order(either: OpenCLBackend, n: int) -> None:
    made = Operands()
    check(either, made.put(F32, made.rng.integers(-2, 3, (4, n))), made)
    check(either, made.put(F32, np.zeros((1, n))), made)


@pytest.mark.parametrize("n", [40, 1000])
def test_numbers_of_every_kind(either: OpenCLBackend, n: int) -> None:
    """Both zeros, which are equal, denormals, infinities, and NaN of both signs at the end."""
    made = Operands()
    kinds = np.array([0.0, -0.0, 1e-40, -1e-40, np.inf, -np.inf, np.nan, -np.nan, 3e38, -1.0])
    check(either, made.put(F32, made.rng.choice(kinds, (3, n))), made)
    check(either, made.put(F32, np.full((1, n), np.nan)), made)


@pytest.mark.parametrize("n", [64, 700])
def test_views(either: OpenCLBackend, n: int) -> None:
    """Parts of wider rows, and rows across."""
    made = Operands()
    whole = made.make(F32, n + 9, 6, 3, 2)
    check(either, whole.view(12, (n, 4, 3, 2), whole.strides[1:]), made)
    check(either, made.make(F32, 5, 2, n, 3).permute(1, 3, 0, 2), made)


@pytest.mark.parametrize("n", [32, 1000])
def test_top_k(either: OpenCLBackend, n: int) -> None:
    made = Operands()
    x = made.make(F32, n, 5)
    got = run(either, ops.top_k(x, 8), made.values)
    np.testing.assert_array_equal(got, expected(made.exact(x), True)[..., :8])


def check_best(backend: OpenCLBackend, x: Tensor, k: int, made: Operands) -> None:
    got = run(backend, ops.best(x, k), made.values).reshape(-1, 2, k)
    for row, (values, ids) in zip(made.exact(x).reshape(-1, x.shape[0]), got, strict=True):
        first = np.lexsort((-np.nan_to_num(row, nan=0.0), ~np.isnan(row)))[:k]
        np.testing.assert_array_equal(ids, first)
        np.testing.assert_array_equal(values, row[first])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 1000, 1024, 1025, 5000, 16384, 16385, 262144])
def test_best(either: OpenCLBackend, n: int) -> None:
    """Rows of one block, of two whose second is a single element, and of three rounds."""
    made = Operands()
    check_best(either, made.make(F32, n, 3 if n < 1e5 else 1), min(n, 64), made)


@pytest.mark.each_value
@pytest.mark.parametrize("k", [1, 3, 64, 512])
def test_best_of_equal_values_and_of_every_kind(either: OpenCLBackend, k: int) -> None:
    made = Operands()
    check_best(either, made.put(F32, made.rng.integers(-2, 3, (4, 3000))), k, made)
    kinds = np.array([0.0, -0.0, 1e-40, -1e-40, np.inf, -np.inf, np.nan, -np.nan, 3e38, -1.0])
    check_best(either, made.put(F32, made.rng.choice(kinds, (3, 2100))), k, made)
    check_best(either, made.put(F32, np.full((1, 2000), -np.inf)), k, made)


def test_best_of_views(either: OpenCLBackend) -> None:
    made = Operands()
    whole = made.make(F32, 1500, 6, 3, 2)
    check_best(either, whole.view(12, (1400, 4, 3, 2), whole.strides[1:]), 5, made)
    check_best(either, made.make(F32, 5, 2, 1200, 3).permute(1, 3, 0, 2), 5, made)


def test_twice_gives_the_same(either: OpenCLBackend) -> None:
    """Merging goes back and forth between two storages: the second run finds both used."""
    made = Operands()
    x = made.make(F32, 3000, 2)
    got = run(either, ops.argsort(x), made.values, times=2)
    np.testing.assert_array_equal(got, expected(made.exact(x), False))
