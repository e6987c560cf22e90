"""Attention as towers of image models have it: keys and values are results, not a cache; everybody
sees everybody, or a window, or their own picture; padding has no bits. Against float64 in NumPy.
"""

import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.backends.opencl.backend import OpenCLBackend
from engine.device.backend import Backend
from engine.gguf.formats import F32, I32
from engine.graph import ops
from engine.graph.tensor import Tensor
from tests.kernels.harness import nmse, run
from tests.kernels.test_attention import Ints, attended
from tests.kernels.values import Floats, Operands

HEADS = 2
SIGHTS = ["all", "padded", "windows", "pictures"]
SIZES = [(64, 31), (72, 150), (80, 64), (88, 97), (96, 130), (128, 65)]


def sight(name: str, n: int) -> tuple[Ints, Ints]:
    """`spans` [n, 4] and `cells` [n, 2] of so many patches."""
    numbers = np.zeros(n, np.int64)
    if name == "windows":  # of 16 patches that do not stand beside each other
        numbers = np.arange(n) * 7 % -(-n // 16)
    elif name == "pictures":
        numbers = np.sort(np.arange(n) % 3)
    bits = np.ones(n, np.int64)
    if name == "padded":
        bits[n - n // 5 :] = 0
    cells = np.stack([bits, numbers], 1)
    return np.stack([bits, numbers, numbers, np.zeros(n, np.int64)], 1), cells


def heads_of(made: Operands, dim: int, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values as one product leaves them: each row has all of them."""
    whole = made.make(F32, 3 * dim * HEADS, n)
    q, k, v = (
        whole.view(i * dim * HEADS * 4, (dim, HEADS, n), (dim * 4, whole.strides[1]))
        for i in range(3)
    )
    return q, k, v


def check(backend: Backend, dim: int, n: int, name: str) -> None:
    made = Operands()
    q, k, v = heads_of(made, dim, n)
    spans, cells = sight(name, n)
    visible = (made.put(I32, spans), made.put(I32, cells), made.put(I32, np.array([n])))
    # Keys and values are computed on the way, and lie packed then.
    node = ops.attention(q, ops.scale(k, 2.0), ops.contiguous(v), *visible, scale=dim**-0.5)
    exact: list[Floats] = [made.exact(t)[0] for t in (q, k, v)]
    scale = np.float64(np.float32(dim**-0.5))
    want = attended(exact[0], 2 * exact[1], exact[2], spans, cells, scale, 0.0, None)
    got = run(backend, node, made.values)[0]
    assert nmse(got, want) < 1e-11
    blind = spans[:, 0] == 0
    assert not got[blind].any()
    assert blind.any() == (name == "padded")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SIGHTS)
@pytest.mark.parametrize(("dim", "n"), SIZES, ids=str)
def test_head_sizes(either: OpenCLBackend, dim: int, n: int, name: str) -> None:
    check(either, dim, n, name)


@pytest.mark.parametrize(("dim", "name"), [(72, "padded"), (80, "windows"), (88, "pictures")])
def test_thousands_of_patches(backend: OpenCLBackend, dim: int, name: str) -> None:
    check(backend, dim, 2050, name)


@pytest.mark.parametrize("name", SIGHTS)
@pytest.mark.parametrize("dim", [72, 80, 88])
def test_host(dim: int, name: str) -> None:
    check(HostBackend(), dim, 70, name)
