"""Patches, convolutions, pooling and scaling against loops over NumPy."""

from itertools import product

import numpy as np
import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.gguf.formats import F16, F32, Format
from engine.graph import ops
from engine.graph.tensor import Tensor
from tests.kernels.harness import nmse, run
from tests.kernels.values import Floats, Operands


def strided(made: Operands, *shape: int) -> Tensor:
    """A view into larger planes."""
    whole = made.make(F32, shape[0] + 5, shape[1] + 1, *shape[2:])
    return whole.view(8, shape, whole.strides[1:])


def padded(x: Floats, pad: tuple[int, ...]) -> Floats:
    """x [..., D, H, W] with zeros around; `pad` is ordered W, H, D."""
    around = [(0, 0)] * (x.ndim - len(pad)) + [(p, p) for p in reversed(pad)]
    return np.pad(x, around)


FLAT = [
    # image W, H, IC, N; kernel; stride; pad; dilation
    ((9, 7, 3, 2), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((28, 28, 3, 1), (14, 14), (14, 14), (0, 0), (1, 1)),
    ((12, 10, 2, 3), (4, 2), (3, 2), (2, 0), (2, 3)),
    ((40, 1, 5, 1), (3, 1), (1, 1), (1, 0), (1, 1)),
    ((5, 5, 1, 1), (5, 5), (1, 1), (0, 0), (1, 1)),
]


@pytest.mark.parametrize(("shape", "kernel", "stride", "pad", "dilation"), FLAT, ids=str)
def test_patches(
    either: OpenCLBackend,
    shape: tuple[int, int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, int],
    dilation: tuple[int, int],
) -> None:
    made = Operands()
    x, weight = strided(made, *shape), made.make(F32, *kernel, shape[2], 2)
    got = run(either, ops.im2col(weight, x, stride, pad, dilation), made.values)
    image = padded(made.exact(x), pad)
    n, oh, ow, k = got.shape
    assert k == kernel[0] * kernel[1] * shape[2]
    for i, oy, ox in np.ndindex(n, oh, ow):
        rows = oy * stride[1] + np.arange(kernel[1]) * dilation[1]
        columns = ox * stride[0] + np.arange(kernel[0]) * dilation[0]
        want = image[i][:, rows[:, None], columns]  # [IC, KH, KW]
        np.testing.assert_array_equal(got[i, oy, ox], want.reshape(-1))


@pytest.mark.parametrize("fmt", [F32, F16], ids=str)
@pytest.mark.parametrize(("shape", "kernel", "stride", "pad", "dilation"), FLAT, ids=str)
def test_conv_2d(
    either: OpenCLBackend,
    shape: tuple[int, int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, int],
    dilation: tuple[int, int],
    fmt: Format,
) -> None:
    made = Operands()
    x, weight = strided(made, *shape), made.make(fmt, *kernel, shape[2], 4)
    got = run(either, ops.conv_2d(weight, x, stride, pad, dilation), made.values)
    image, taps = padded(made.exact(x), pad), made.exact(weight)  # [N, IC, H, W], [OC, IC, KH, KW]
    want = np.zeros(got.shape)
    for ky, kx in product(range(kernel[1]), range(kernel[0])):
        rows = ky * dilation[1] + np.arange(got.shape[2]) * stride[1]
        columns = kx * dilation[0] + np.arange(got.shape[3]) * stride[0]
        part = image[:, :, rows[:, None], columns]
        want += np.einsum("ncyx,oc->noyx", part, taps[:, :, ky, kx])
    assert nmse(got, want) < 1e-12


@pytest.mark.parametrize("fmt", [F32, F16], ids=str)
@pytest.mark.parametrize(
    ("depth", "channels", "images", "stride", "pad", "dilation"),
    [
        (4, 3, 1, (1, 1, 1), (0, 0, 0), (1, 1, 1)),
        (5, 2, 2, (2, 1, 2), (1, 1, 1), (1, 2, 1)),
        (2, 3, 1, (7, 5, 2), (0, 0, 0), (1, 1, 1)),
    ],
)
def test_conv_3d(
    either: OpenCLBackend,
    depth: int,
    channels: int,
    images: int,
    stride: tuple[int, int, int],
    pad: tuple[int, int, int],
    dilation: tuple[int, int, int],
    fmt: Format,
) -> None:
    kernel = (4, 3, 2)
    made = Operands()
    x = strided(made, 14, 11, depth, channels * images)
    weight = made.make(fmt, *kernel, channels * 5)
    got = run(either, ops.conv_3d(weight, x, channels, stride, pad, dilation), made.values)[0, 0]
    sizes = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip((14, 11, depth), kernel, stride, pad, dilation, strict=True)
    ]
    image = padded(made.exact(x).reshape(images, channels, depth, 11, 14), pad)
    taps = made.exact(weight).reshape(5, channels, *kernel[::-1])
    want = np.zeros((images, *sizes[::-1], 5))
    for kx, ky, kz in product(*map(range, kernel)):
        at = [
            k * d + np.arange(n) * s
            for k, d, n, s in zip((kx, ky, kz), dilation, sizes, stride, strict=True)
        ]
        part = image[:, :, at[2][:, None, None], at[1][:, None], at[0]]
        want += np.einsum("nczyx,oc->nzyxo", part, taps[:, :, kz, ky, kx])
    assert nmse(got, want.reshape(-1, 5)) < 1e-12


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pad"),
    [((8, 6), 2, 2, 0), ((64, 64), 4, 4, 0), ((9, 11), 3, 2, 1), ((5, 5), 5, 1, 2)],
)
def test_avg_pool(
    either: OpenCLBackend, size: tuple[int, int], kernel: int, stride: int, pad: int
) -> None:
    """Padding counts as zeros in the mean."""
    made = Operands()
    x = strided(made, *size, 3, 2)
    got = run(either, ops.avg_pool_2d(x, kernel, stride, pad), made.values)
    image = padded(made.exact(x), (pad, pad))
    for oy, ox in np.ndindex(got.shape[2:]):
        rows, columns = slice(oy * stride, oy * stride + kernel), slice(ox * stride, None)
        want = image[:, :, rows, columns][..., :kernel].sum((2, 3)) / kernel**2
        np.testing.assert_allclose(got[:, :, oy, ox], want, rtol=1e-5, atol=1e-6)


SCALED = [(13, 7, 3, 2), (4, 3, 6, 2), (8, 6, 3, 4), (1, 1, 1, 1), (33, 50, 3, 2)]


@pytest.mark.parametrize("shape", SCALED, ids=str)
def test_nearest(either: OpenCLBackend, shape: tuple[int, int, int, int]) -> None:
    made = Operands()
    x = strided(made, 8, 6, 3, 2)
    got = run(either, ops.interpolate(x, shape), made.values)
    at = [[i * n // m for i in range(m)] for n, m in zip((8, 6, 3, 2), shape, strict=True)]
    np.testing.assert_array_equal(got, made.exact(x)[np.ix_(*reversed(at))])


@pytest.mark.parametrize("shape", SCALED, ids=str)
def test_bilinear(either: OpenCLBackend, shape: tuple[int, int, int, int]) -> None:
    made = Operands()
    x = strided(made, 8, 6, 3, 2)
    got = run(either, ops.interpolate(x, shape, "bilinear"), made.values)
    whole = [[i * n // m for i in range(m)] for n, m in zip((3, 2), shape[2:], strict=True)]
    want = made.exact(x)[np.ix_(whole[1], whole[0])]
    for axis, n, m in ((3, 8, shape[0]), (2, 6, shape[1])):
        # Half-pixel centres, clamped to the outermost ones.
        place = np.clip((np.arange(m) + 0.5) * n / m - 0.5, 0, n - 1)
        low = np.minimum(place.astype(int), n - 1)
        high, part = np.minimum(low + 1, n - 1), place - low
        part = part.reshape(-1, *(1,) * (3 - axis))
        want = want.take(low, axis) * (1 - part) + want.take(high, axis) * part
    assert nmse(got, want) < 1e-12


def test_large_planes_keep_their_places(either: OpenCLBackend) -> None:
    """Positions are exact where a float would round them."""
    made = Operands()
    x = made.put(F32, np.arange(3000.0).reshape(1, 3000))
    got = run(either, ops.interpolate(x, (2999, 1, 1, 1), "bilinear"), made.values)[0, 0, 0]
    want = (np.arange(2999) + 0.5) * 3000 / 2999 - 0.5
    np.testing.assert_allclose(got, want, rtol=2e-7)
