"""Norms, row by row in float64."""

from collections.abc import Callable

import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.gguf.formats import F16, F32
from engine.graph import ops
from tests.engine.backends.host.operands import ARRANGED, FLOATS, assert_near
from tests.kernels.harness import nmse, run
from tests.kernels.values import Operands

Row = list[float]


def rms(row: Row, eps: float) -> Row:
    length = (sum(e * e for e in row) / len(row) + eps) ** 0.5
    return [e / length for e in row]


def layer(row: Row, eps: float) -> Row:
    mean = sum(row) / len(row)
    variance = sum((e - mean) ** 2 for e in row) / len(row)
    return [(e - mean) / (variance + eps) ** 0.5 for e in row]


def l2(row: Row, eps: float) -> Row:
    length = max(sum(e * e for e in row) ** 0.5, eps)
    return [e / length for e in row]


def by_rows(values: np.ndarray, definition: Callable[[Row, float], Row], eps: float) -> np.ndarray:
    want = np.empty(values.shape)
    for i in np.ndindex(values.shape[:-1]):
        want[i] = definition(values[i].tolist(), eps)
    return want


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (64, 3, 2), (577, 2)], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_rms_norm(host: HostBackend, shape: tuple[int, ...], weighted: bool) -> None:
    x = Operands(9)
    a, w = x.make(F32, *shape, spread=30), x.make(F32, shape[0])
    want = by_rows(x.exact(a), rms, 1e-5) * (x.exact(w) if weighted else 1)
    given = x.values if weighted else {a: x.values[a]}
    assert nmse(run(host, ops.rms_norm(a, w if weighted else None, 1e-5), given), want) < 1e-12


@pytest.mark.parametrize("shape", [(2, 1), (5, 3), (64, 3, 2), (577, 2)], ids=str)
@pytest.mark.parametrize("parts", [(), ("w",), ("w", "b")], ids=str)
def test_layer_norm(host: HostBackend, shape: tuple[int, ...], parts: tuple[str, ...]) -> None:
    x = Operands(10)
    a = x.make(F32, *shape, spread=30)
    w = x.make(F32, shape[0]) if "w" in parts else None
    b = x.make(F16, shape[0]) if "b" in parts else None
    want = by_rows(x.exact(a), layer, 1e-5)
    want = want * (1 if w is None else x.exact(w)) + (0 if b is None else x.exact(b))
    assert nmse(run(host, ops.layer_norm(a, w, b, 1e-5), x.values), want) < 1e-12


NORMS = {
    "rms": (lambda a: ops.rms_norm(a, None, 1e-6), rms),
    "layer": (lambda a: ops.layer_norm(a, None, None, 1e-6), layer),
    "l2": (lambda a: ops.l2_norm(a, 1e-6), l2),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("fmt", FLOATS, ids=str)
@pytest.mark.parametrize("arranged", ARRANGED, ids=lambda make: make.__name__)
def test_types_and_arrangements(host: HostBackend, name: str, fmt, arranged) -> None:
    op, definition = NORMS[name]
    x = Operands(11)
    a = arranged(x, fmt, 5)
    want = by_rows(x.exact(a), definition, 1e-6)
    assert_near(run(host, op(a), x.values), want, fmt, small=2e-6)


@pytest.mark.parametrize("name", NORMS)
def test_a_row_of_zeros_and_one_whose_square_passes_float32(host: HostBackend, name: str) -> None:
    x = Operands()
    a = x.put(F32, np.float32([[0, 0], [1e25, -1e25]]))
    got = run(host, NORMS[name][0](a), x.values).reshape(2, 2)
    end = 0.5**0.5 if name == "l2" else 1
    assert np.allclose(got, [[0, 0], [end, -end]], rtol=1e-6)


def test_short_rows_are_divided_by_epsilon(host: HostBackend) -> None:
    """l2_norm's eps is a floor of the length, not a part of it."""
    x = Operands()
    a = x.put(F32, np.float32([[3e-4, 4e-4], [3, 4]]))
    got = run(host, ops.l2_norm(a, 1e-2), x.values).reshape(2, 2)
    assert np.allclose(got, [[0.03, 0.04], [0.6, 0.8]], rtol=1e-6)


def test_the_mean_may_be_large(host: HostBackend) -> None:
    """What a float32 sum of squares less the square of the mean would lose."""
    x = Operands(12)
    a = x.put(F32, 10_000 + x.rng.standard_normal((3, 100)))
    want = by_rows(x.exact(a), layer, 1e-5)
    assert nmse(run(host, ops.layer_norm(a, None, None, 1e-5), x.values), want) < 1e-12


def test_nan_stays_in_its_row(host: HostBackend) -> None:
    x = Operands()
    a = x.put(F32, np.float32([[1, np.nan], [1, 3]]))
    for op, definition in NORMS.values():
        got = run(host, op(a), x.values).reshape(2, 2)
        assert np.isnan(got[0]).all()
        assert np.allclose(got[1], definition([1.0, 3.0], 1e-6), rtol=1e-6)
