"""Patches, convolutions, pooling and scaling, number by number in float64."""

from itertools import product
from math import floor

import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.gguf.formats import BF16, F16, F32, Q8_0
from engine.graph import ops
from engine.graph.tensor import Role, leaf
from tests.engine.backends.host.operands import ARRANGED, assert_near
from tests.kernels.harness import nmse, run
from tests.kernels.values import Operands

# Image [W, H], kernel [KW, KH], stride, padding, dilation; the two directions differ.
PLANES = [
    ((5, 4), (1, 1), (1, 1), (0, 0), (1, 1)),
    ((9, 7), (3, 2), (1, 1), (0, 0), (1, 1)),
    ((9, 7), (3, 2), (2, 3), (1, 0), (1, 1)),
    ((9, 7), (3, 2), (1, 1), (2, 1), (2, 3)),
    ((8, 12), (4, 4), (4, 4), (0, 0), (1, 1)),
    ((2, 3), (3, 5), (1, 2), (1, 2), (1, 1)),
]


def at(image: np.ndarray, *index: int) -> float:
    """An element, or 0 outside."""
    inside = all(0 <= i < n for i, n in zip(index, image.shape, strict=True))
    return float(image[index]) if inside else 0.0


def patches_3d(image, kernel, stride, pad, dilation) -> np.ndarray:
    """image [IC, D, H, W] -> [OD, OH, OW, IC * KD * KH * KW]; sizes are (width, height, depth)."""
    counts = [
        floor((n + 2 * p - d * (k - 1) - 1) / s) + 1
        for n, k, s, p, d in zip(image.shape[:0:-1], kernel, stride, pad, dilation, strict=True)
    ]
    out = np.empty((*counts[::-1], len(image), *kernel[::-1]))
    for index in np.ndindex(*out.shape):
        (oz, oy, ox), ic, (kz, ky, kx) = index[:3], index[3], index[4:]
        place = (
            i * s + k * d - p
            for i, k, s, p, d in zip(
                (oz, oy, ox), (kz, ky, kx), stride[::-1], pad[::-1], dilation[::-1], strict=True
            )
        )
        out[index] = at(image[ic], *place)
    return out.reshape(*counts[::-1], -1)


def patches(image, kernel, stride, pad, dilation) -> np.ndarray:
    """image [N, IC, H, W] -> [N, OH, OW, IC * KH * KW]."""
    sizes = ((*kernel, 1), (*stride, 1), (*pad, 0), (*dilation, 1))
    return np.stack([patches_3d(one[:, None], *sizes)[0] for one in image])


@pytest.mark.parametrize("case", PLANES, ids=str)
def test_im2col(host: HostBackend, case) -> None:
    size, kernel, *how = case
    x = Operands(90)
    image, weight = x.make(F32, *size, 3, 2), leaf("kernel", F16, (*kernel, 3, 4), Role.WEIGHT)
    got = run(host, ops.im2col(weight, image, *how), x.values)
    assert np.array_equal(got, patches(x.exact(image), kernel, *how))


@pytest.mark.parametrize("case", PLANES, ids=str)
@pytest.mark.parametrize("fmt", [F32, F16, BF16], ids=str)
def test_conv_2d(host: HostBackend, case, fmt) -> None:
    """Cross-correlation; nothing is rounded to the kernel's type."""
    size, kernel, *how = case
    x = Operands(91)
    image, weight = x.make(F32, *size, 3, 2), x.make(fmt, *kernel, 3, 4)
    of_weight = x.exact(weight).reshape(4, -1)  # [OC, IC * KH * KW]
    want = np.moveaxis(patches(x.exact(image), kernel, *how) @ of_weight.T, -1, 1)
    assert nmse(run(host, ops.conv_2d(weight, image, *how), x.values), want) < 1e-12


def test_conv_of_a_permuted_image(host: HostBackend) -> None:
    """Pixels as they are decoded: [3, W, H], the channel first."""
    x = Operands(92)
    image, weight = x.make(F32, 3, 8, 6), x.make(F32, 2, 2, 3, 5)
    planes = image.permute(2, 0, 1)
    want = patches(x.exact(planes), (2, 2), (2, 2), (0, 0), (1, 1))
    want = np.moveaxis(want @ x.exact(weight).reshape(5, -1).T, -1, 1)
    assert nmse(run(host, ops.conv_2d(weight, planes, (2, 2)), x.values), want) < 1e-12


VOLUMES = [
    ((4, 3, 2), (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1)),
    ((6, 5, 4), (3, 2, 2), (1, 2, 1), (1, 0, 1), (1, 2, 1)),
    ((6, 4, 4), (2, 2, 2), (2, 2, 2), (0, 0, 0), (1, 1, 1)),
    ((5, 4, 6), (2, 1, 3), (2, 1, 2), (0, 1, 0), (2, 1, 2)),
]


@pytest.mark.parametrize("case", VOLUMES, ids=str)
@pytest.mark.parametrize("n", [1, 2])
def test_conv_3d(host: HostBackend, case, n: int) -> None:
    """One column a window, images one after the other, each with its depths from the first on."""
    size, kernel, *how = case
    channels = 3
    x = Operands(93)
    image = x.make(F32, *size, channels * n)
    weight = x.make(F16, *kernel, channels * 4)
    of_image = x.exact(image).reshape(n, channels, *size[::-1])
    columns = np.concatenate([patches_3d(one, kernel, *how) for one in of_image])
    got = run(host, ops.im2col_3d(weight, image, channels, *how), x.values)
    assert np.array_equal(got, columns)
    of_weight = x.exact(weight).reshape(4, -1)
    want = columns.reshape(-1, of_weight.shape[1]) @ of_weight.T
    got = run(host, ops.conv_3d(weight, image, channels, *how), x.values)
    assert nmse(got[0, 0], want) < 1e-12


@pytest.mark.parametrize(
    ("kernel", "stride", "pad"), [(1, 1, 0), (2, 2, 0), (3, 2, 0), (3, 1, 1), (3, 3, 2), (2, 5, 1)]
)
@pytest.mark.parametrize("arranged", ARRANGED, ids=lambda make: make.__name__)
def test_avg_pool(host: HostBackend, arranged, kernel: int, stride: int, pad: int) -> None:
    """Padding counts: a corner of one element is divided by the whole window."""
    x = Operands(94)
    a = arranged(x, F32)  # [7, 5, 3, 2]
    values = x.exact(a)
    ow, oh = ((n + 2 * pad - kernel) // stride + 1 for n in (7, 5))
    want = np.empty((2, 3, oh, ow))
    for n, c, oy, ox in np.ndindex(*want.shape):
        window = product(range(kernel), repeat=2)
        total = sum(
            at(values[n, c], oy * stride + ky - pad, ox * stride + kx - pad) for ky, kx in window
        )
        want[n, c, oy, ox] = total / kernel**2
    assert_near(run(host, ops.avg_pool_2d(a, kernel, stride, pad), x.values), want)


def along(values: np.ndarray, axis: int, size: int, blend: bool) -> np.ndarray:
    """One axis scaled, element by element."""
    before = values.shape[axis]
    parts = []
    for i in range(size):
        if not blend:
            parts.append(values.take(i * before // size, axis))
            continue
        place = (i + 0.5) * before / size - 0.5
        low, part = floor(place), place - floor(place)
        first, second = (
            values.take(min(max(j, 0), before - 1), axis).astype(float) for j in (low, low + 1)
        )
        parts.append(first * (1 - part) + second * part)
    return np.stack(parts, axis)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize("arranged", ARRANGED, ids=lambda make: make.__name__)
@pytest.mark.parametrize(
    "shape",
    [(7, 5, 3, 2), (14, 10, 3, 2), (3, 2, 3, 2), (10, 3, 3, 2), (1, 1, 6, 1), (8, 9, 2, 3)],
    ids=str,
)
def test_interpolate(host: HostBackend, mode, arranged, shape) -> None:
    x = Operands(95)
    a = arranged(x, F32)
    want = x.exact(a)
    for axis, size in enumerate(shape[::-1]):
        want = along(want, axis, size, blend=mode == "bilinear" and axis >= 2)
    assert_near(run(host, ops.interpolate(a, shape, mode), x.values), want)


def test_a_constant_stays_constant_and_edges_are_held(host: HostBackend) -> None:
    x = Operands()
    a = x.put(F32, np.float32([[1, 3]]))
    got = run(host, ops.interpolate(a, (8, 3, 1, 1), "bilinear"), x.values)[0, 0]
    assert got[0].tolist() == [1, 1, 1.25, 1.75, 2.25, 2.75, 3, 3]
    assert np.array_equal(got[1], got[0])


def test_a_kernel_of_blocks_multiplies_too(host: HostBackend) -> None:
    x = Operands(96)
    image = x.make(F32, 8, 8, 8)
    weight = leaf("kernel", Q8_0, (32, 16), Role.WEIGHT)
    rows = np.zeros((16, 34), np.uint8)
    rows[:, :2] = np.float16([1]).view(np.uint8)
    rows[:, 2:] = np.random.default_rng(97).integers(0, 256, (16, 32), np.uint8)
    columns = ops.im2col(leaf("size", F32, (2, 2, 8), Role.WEIGHT), image, (2, 2))
    got = run(host, ops.matmul(weight, columns.reshape(32, 16)), x.values | {weight: rows})
    want = patches(x.exact(image), (2, 2), (2, 2), (0, 0), (1, 1)).reshape(16, 32)
    assert nmse(got[0, 0], want @ rows[:, 2:].view(np.int8).astype(float).T) < 1e-12
