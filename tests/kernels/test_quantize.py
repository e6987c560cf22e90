"""Activations in 12 and in 8 bits, read back by the layout that quantize.cl describes."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.launches.quantize import in_digits, panel_rows
from engine.backends.opencl.lowering.helpers import panels_of
from engine.gguf.formats import F32, Q6_K, Q8_0, Format
from engine.graph.lowered import Panels
from engine.graph.tensor import Tensor
from engine.selftest.guarded import Array, run_all
from tests.kernels.values import Operands

PAIRS = [4 * j + i for j in range(8) for i in (0, 2, 1, 3)]


def run(backend: OpenCLBackend, node: Tensor, values: Mapping[Tensor, Array]) -> Array:
    """A lowered node's bytes."""
    return run_all(backend, [node], values)[0]


class Read:
    """The parts of a quantised tensor of `n` rows of `k`, rows first."""

    def __init__(self, raw: NDArray[np.generic], k: int, panel: int) -> None:
        blocks = raw.reshape(-1, k // 32, panel, 80).astype(np.int8).swapaxes(1, 2)
        records = np.ascontiguousarray(blocks).reshape(-1, k // 32, 80)
        self.q = np.empty((len(records), k // 32, 32), np.int16)
        self.q[..., PAIRS] = records[..., :64].view(np.int16)
        self.scale, self.scaled_sum = np.moveaxis(records[..., 64:72].view(np.float32), -1, 0)
        self.sums = records[..., 72:76].view(np.int16)
        self.crossed = records[..., 76:].view(np.int32)[..., 0]


@pytest.mark.parametrize(
    ("k", "n"), [(32, 1), (576, 1), (2048, 3), (640, 8), (1056, 13), (4128, 1)]
)
def test_values(either: OpenCLBackend, k: int, n: int) -> None:
    made = Operands()
    x = made.make(F32, k, n)
    panel = panel_rows(n, either.info.traits)
    assert panel == 1 if n == 1 else panel in (3, 4, 8)
    node = panels_of(x, Panels(panel, 12))
    got = Read(run(either, node, made.values), k, panel)
    want = made.exact(x)[0, 0].reshape(n, k // 32, 32)
    scale = np.abs(want).max(-1) / 2047
    assert np.abs(got.q).max() == 2047
    np.testing.assert_allclose(got.scale[:n], scale, rtol=1e-6)
    error = np.abs(got.q[:n] * got.scale[:n, :, None].astype(np.float64) - want)
    assert (error <= 0.5001 * scale[..., None]).all()
    assert (got.sums[..., 0] == got.q[..., :16].sum(-1)).all()
    assert (got.sums[..., 1] == got.q[..., 16:].sum(-1)).all()
    neighbours = got.q.astype(np.int32).reshape(*got.q.shape[:-1], 16, 2).prod(-1)
    assert (got.crossed == -neighbours.sum(-1)).all()
    np.testing.assert_allclose(got.scaled_sum, got.scale * got.sums.sum(-1), rtol=1e-6)
    assert (got.q[n:] == got.q[n - 1]).all()  # a panel is filled with its last row


def test_values_of_8_bits(either: OpenCLBackend) -> None:
    made = Operands()
    x = made.make(F32, 96, 6)
    raw = run(either, panels_of(x, Panels(4, 8)), made.values)
    blocks = np.ascontiguousarray(raw.reshape(-1, 3, 4, 44).astype(np.int8).swapaxes(1, 2))
    q = blocks[..., :32].reshape(-1, 3, 32).astype(np.int64)
    scale, scaled_sum = np.moveaxis(blocks[..., 32:40].copy().view(np.float32), -1, 0)
    sums = blocks[..., 40:].copy().view(np.int16).reshape(-1, 3, 2)
    want = made.exact(x)[0, 0][np.minimum(np.arange(8), 5)].reshape(8, 3, 32)
    assert (np.abs(q).max(-1) == 127).all()
    np.testing.assert_allclose(scale.reshape(8, 3), np.abs(want).max(-1) / 127, rtol=1e-6)
    assert (np.abs(q * scale.reshape(8, 3, 1) - want) <= 0.5001 * scale.reshape(8, 3, 1)).all()
    assert (sums == q.reshape(8, 3, 2, 16).sum(-1)).all()
    np.testing.assert_allclose(scaled_sum, scale * sums.sum(-1).reshape(scale.shape), rtol=1e-6)


@pytest.mark.parametrize("size", [0.0, 1e-40, 1e-31, 1e-20, 1e20, 3e38])
def test_any_magnitude(backend: OpenCLBackend, size: float) -> None:
    """Nothing overflows; what is too small for a scale counts as zero."""
    made = Operands()
    x = made.put(F32, np.linspace(-1, 1, 64).reshape(2, 32) * size)
    got = Read(run(backend, panels_of(x, Panels(4, 12)), made.values), 32, 4)
    values = got.q[:2] * got.scale[:2, :, None].astype(np.float64)
    assert np.isfinite(values).all()
    assert np.abs(values[:, 0] - made.exact(x)[0, 0]).max() <= max(size / 4000, 1e-30)


def test_rows_of_a_view(either: OpenCLBackend) -> None:
    made = Operands()
    whole = made.make(F32, 96, 5, 3)
    part = whole.view(128, (64, 2, 3), (whole.strides[1] * 2, whole.strides[2]))
    got = Read(run(either, panels_of(part, Panels(4, 12)), made.values), 64, 4)
    values = (got.q * got.scale[..., None])[:6].reshape(3, 2, 64)
    assert np.abs(values - made.exact(part)[0]).max() < 4 / 4000


@pytest.mark.parametrize("panel", [1, 4])
def test_panels_as_they_are(either: OpenCLBackend, panel: int) -> None:
    made = Operands()
    x = made.make(F32, 96, 5)
    raw = run(either, panels_of(x, Panels(panel, 32)), made.values)
    got = raw.astype(np.int8).view(np.float32).reshape(-1, 3, panel, 32).swapaxes(1, 2)
    want = made.values[x][np.minimum(np.arange(-(-5 // panel) * panel), 4)]
    np.testing.assert_array_equal(got.reshape(-1, 96), want)


def panels_in_digits(fmt: Format, traits: DeviceTraits) -> list[int]:
    """Rows of a panel that are digits, where a product has no more."""
    return [panel for panel in (1, 2, 3, 4, 8) if in_digits(fmt, panel, panel, traits)]


def test_rows_of_a_panel_and_their_form() -> None:
    """Vectors with instructions for bytes take up to three rows in digits; wide ones up to four,
    where one instruction adds four products (VNNI), and else one.
    """
    narrow = DeviceTraits(True, 2, 4096, 1 << 15, vector_ints=8, vector_bytes=True)
    plain, wide = replace(narrow, vector_bytes=False), replace(narrow, vector_ints=16)
    rows = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 512)
    assert [panel_rows(n, narrow) for n in rows] == [1, 2, 3, 4, 3, 3, 4, 4, 4, 4, 4]
    assert panel_rows(6, narrow, scattered=True) == 2
    assert [panel_rows(n, plain) for n in rows] == [1, 2, 4, 4, 2, 2, 4, 4, 4, 4, 4]
    assert [panel_rows(n, wide) for n in rows] == [1, 2, 4, 4, 8, 8, 8, 8, 4, 4, 8]
    assert panels_in_digits(Q6_K, narrow) == [1, 2, 3]
    assert panels_in_digits(Q8_0, narrow) == [1, 3]
    assert panels_in_digits(Q6_K, plain) == []
    assert panels_in_digits(Q6_K, wide) == [1]
    fours = replace(wide, vnni=True)
    assert [panel_rows(n, fours) for n in rows] == [1, 2, 3, 4, 8, 8, 8, 8, 4, 4, 8]
    assert panels_in_digits(Q6_K, fours) == [1, 2, 3, 4]
    assert in_digits(Q6_K, 6, 3, narrow)
    assert not in_digits(Q6_K, 12, 4, fours)
