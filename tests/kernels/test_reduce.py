"""sum_rows, mean, variance and stddev against NumPy."""

import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.gguf.formats import BF16, F16, F32, Format
from engine.graph import ops
from tests.kernels.harness import nmse, run
from tests.kernels.values import Operands

SHAPES = [(1,), (31, 33), (33, 1), (1000, 70), (67, 3, 2, 5), (262144, 1)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("fmt", [F32, F16, BF16], ids=str)
def test_rows(either: OpenCLBackend, fmt: Format, shape: tuple[int, ...]) -> None:
    made = Operands()
    x = made.make(fmt, *shape)
    sums = made.exact(x).sum(-1, keepdims=True)
    assert nmse(run(either, ops.sum_rows(x), made.values), sums) < 1e-9
    assert nmse(run(either, ops.mean(x), made.values), sums / shape[0]) < 1e-9


@pytest.mark.parametrize("fmt", [F32, F16, BF16], ids=str)
def test_views(either: OpenCLBackend, fmt: Format) -> None:
    """Parts of wider rows, and rows across."""
    made = Operands()
    whole = made.make(fmt, 80, 6, 5, 2)
    part = whole.view(10 * fmt.bytes, (67, 4, 5), whole.strides[1:3])
    for x in (part, whole.permute(1, 3, 0, 2), part.permute(2, 0, 1)):
        got = run(either, ops.sum_rows(x), made.values)
        assert nmse(got, made.exact(x).sum(-1, keepdims=True)) < 1e-9


def test_large_sums(either: OpenCLBackend) -> None:
    """Numbers far from zero, whose sum has more digits than each."""
    made = Operands()
    x = made.put(F32, made.rng.uniform(999, 1001, (3, 262144)))
    got = run(either, ops.mean(x), made.values)
    assert nmse(got, made.exact(x).mean(-1, keepdims=True)) < 1e-10


@pytest.mark.parametrize("shape", [(31, 5), (1000, 3), (48, 3, 2, 2)])
def test_variance_and_stddev(either: OpenCLBackend, shape: tuple[int, ...]) -> None:
    made = Operands()
    x = made.make(F32, *shape, spread=7.0)
    variance = made.exact(x).var(-1, keepdims=True)
    assert nmse(run(either, ops.variance(x), made.values), variance) < 1e-9
    assert nmse(run(either, ops.stddev(x), made.values), variance**0.5) < 1e-9
