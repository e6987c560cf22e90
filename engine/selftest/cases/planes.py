"""Cases: convolution, pooling and scaling of images."""

from collections.abc import Iterator

from engine.gguf.formats import F16, F32
from engine.graph import ops
from engine.graph.op import Op
from engine.selftest.case import EXACT, MATMUL_MOST, Case, bound, dims

# Kernel, image, stride, padding, dilation; the first as image models cut patches, the last a line.
WINDOWS = (
    ((14, 14, 3), (56, 42, 3), (14, 14), (0, 0), (1, 1)),
    ((3, 2, 5), (17, 11, 5), (1, 2), (1, 0), (1, 1)),
    ((3, 3, 2), (20, 21, 2), (2, 1), (2, 3), (2, 3)),
    ((3, 3, 8), (10, 10, 8), (1, 1), (1, 1), (1, 1)),
    ((3, 1, 16), (200, 1, 16), (3, 1), (1, 0), (2, 1)),
)


def planes() -> Iterator[Case]:
    """im2col, conv, avg_pool_2d, interpolate."""
    yield from _convolutions()
    yield from _pooling()
    yield from _scaling()


def _convolutions() -> Iterator[Case]:
    for kernel, image, stride, pad, gaps in WINDOWS:
        patches = bound(
            lambda o, k, i, s, p, d: ops.im2col(o.make(F16, *k, 4), o.make(F32, *i, 2), s, p, d),
            k=kernel,
            i=image,
            s=stride,
            p=pad,
            d=gaps,
        )

        label = f"{dims(*kernel)} over {dims(*image)} by {dims(*stride)}"
        yield Case("im2col", label, patches, EXACT, True)
        for fmt in (F32, F16):
            conv = bound(
                lambda o, t, k, i, s, p, d: ops.conv_2d(
                    o.make(t, *k, 33), o.make(F32, *i, 2), s, p, d
                ),
                t=fmt,
                k=kernel,
                i=image,
                s=stride,
                p=pad,
                d=gaps,
            )

            yield Case("conv_2d", f"{fmt} {label}", conv, MATMUL_MOST, fmt == F16)
    yield Case(
        "conv_3d",
        "F16 [3,3,2] over [9,8,5] of 3",
        lambda o: ops.conv_3d(o.make(F16, 3, 3, 2, 12), o.make(F32, 9, 8, 5, 6), 3, (2, 1, 1)),
        MATMUL_MOST,
        True,
    )


def _pooling() -> Iterator[Case]:
    for size, step, edge in ((2, 2, 0), (3, 1, 1), (4, 4, 0), (5, 2, 2)):
        yield Case(
            "avg_pool_2d",
            f"{size} by {step} with {edge} over [31,17,3]",
            bound(
                lambda o, k, s, p: ops.avg_pool_2d(o.make(F32, 31, 17, 3), k, s, p),
                k=size,
                s=step,
                p=edge,
            ),
            quick=size == 3,
        )


def _scaling() -> Iterator[Case]:
    for target in ((62, 34, 3, 2), (13, 40, 3, 2), (10, 7, 3, 2), (31, 17, 6, 4), (1, 1, 3, 2)):
        yield Case(
            Op.INTERPOLATE,
            f"nearest [31,17,3,2] to {dims(*target)}",
            bound(lambda o, t: ops.interpolate(o.make(F32, 31, 17, 3, 2), t, "nearest"), t=target),
            EXACT,
            True,
        )
        yield Case(
            Op.INTERPOLATE,
            f"bilinear [31,17,3,2] to {dims(*target)}",
            bound(lambda o, t: ops.interpolate(o.make(F32, 31, 17, 3, 2), t, "bilinear"), t=target),
            quick=True,
        )
