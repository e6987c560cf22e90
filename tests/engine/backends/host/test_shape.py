"""What puts tensors together, cuts them and fills them up: NumPy's own functions as reference."""

import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.gguf.formats import F16, F32, I32, Q4_1, Q8_0
from engine.graph import ops
from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor, leaf
from tests.engine.backends.host.operands import ARRANGED, FLOATS, assert_near, packed
from tests.kernels.blocks import random_blocks
from tests.kernels.harness import run
from tests.kernels.values import Operands

TYPES = (*FLOATS, I32)


def blocks_of(fmt, seed: int, *shape: int) -> tuple[Tensor, np.ndarray]:
    """A leaf of blocks, and its bytes [..., row bytes] in reversed shape."""
    made = leaf("blocks", fmt, shape, Role.INPUT)
    rows = random_blocks(np.random.default_rng(seed), fmt, made.nelements // shape[0], shape[0])
    return made, rows.reshape(*shape[:0:-1], -1)


@pytest.mark.parametrize("fmt", TYPES, ids=str)
@pytest.mark.parametrize("arranged", ARRANGED, ids=lambda make: make.__name__)
@pytest.mark.parametrize(
    "pads", [(2, 1, 0, 3), (0, 0, 1), (-1,), (-3, 2, -1, 0), (0, -2, 0, 4)], ids=str
)
def test_pad(host: HostBackend, fmt, arranged, pads: tuple[int, ...]) -> None:
    x = Operands(70)
    a = arranged(x, fmt)
    all_pads = (*pads, *(0,) * (4 - len(pads)))[::-1]
    kept = (np.s_[: n + min(p, 0)] for n, p in zip((2, 3, 5, 7), all_pads, strict=True))
    want = x.exact(a)[tuple(kept)]
    want = np.pad(want, [(0, max(p, 0)) for p in all_pads])
    node = ops.pad(a, *pads)
    assert node.shape == want.shape[::-1]
    assert_near(run(host, node, x.values), want, fmt)


def test_cropping_alone_is_a_view() -> None:
    assert ops.pad(packed(Operands(), F32), -1, -2).op is Op.VIEW


def test_pad_of_blocks(host: HostBackend) -> None:
    a, rows = blocks_of(Q8_0, 71, 64, 3, 2)
    got = run(host, ops.pad(a, 32, -1, 1), {a: rows}).reshape(3, 2, -1)
    assert np.array_equal(got, np.pad(rows[:, :2], [(0, 1), (0, 0), (0, 34)]))


@pytest.mark.parametrize("fmt", TYPES, ids=str)
@pytest.mark.parametrize("arranged", ARRANGED, ids=lambda make: make.__name__)
@pytest.mark.parametrize("dim", range(4))
def test_concat(host: HostBackend, fmt, arranged, dim: int) -> None:
    x = Operands(72)
    a = arranged(x, fmt)
    shape = [7, 5, 3, 2]
    shape[dim] = 4
    b = x.make(fmt, *shape)
    want = np.concatenate([x.exact(a), x.exact(b)], axis=3 - dim)
    assert_near(run(host, ops.concat(a, b, dim), x.values), want, fmt)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_concat_of_blocks(host: HostBackend, dim: int) -> None:
    a, first = blocks_of(Q4_1, 73, 64, 3, 2)
    b, second = blocks_of(Q4_1, 74, *[n * (2 if d == dim else 1) for d, n in enumerate((64, 3, 2))])
    got = run(host, ops.concat(a, b, dim), {a: first, b: second})
    assert np.array_equal(got, np.concatenate([first, second], axis=2 - dim).reshape(-1))


def test_stack_keeps_the_order(host: HostBackend) -> None:
    x = Operands(75)
    parts = [x.make(F32, 3, n) for n in (1, 4, 2, 1)]
    want = np.concatenate([x.exact(p) for p in parts], axis=2)
    assert_near(run(host, ops.stack(1, *parts), x.values), want)
    assert ops.stack(1, parts[0]) is parts[0]


@pytest.mark.parametrize("fmt", TYPES, ids=str)
@pytest.mark.parametrize("arranged", ARRANGED, ids=lambda make: make.__name__)
@pytest.mark.parametrize(("dim", "n"), [(0, 3), (1, 2), (2, 1), (3, 4)])
def test_repeat(host: HostBackend, fmt, arranged, dim: int, n: int) -> None:
    x = Operands(76)
    a = arranged(x, fmt)
    times = [1, 1, 1, 1]
    times[3 - dim] = n
    want = np.tile(x.exact(a), times)
    assert_near(run(host, ops.repeat(a, dim, n), x.values), want, fmt)


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [(0, 7, 1), (1, 10, 3), (1, 11, 3), (0.5, 2, 0.25), (5, -5, -2), (0, 1, 0.1), (3, 3.5, 1)],
    ids=str,
)
def test_arange(host: HostBackend, start: float, stop: float, step: float) -> None:
    node = ops.arange(start, stop, step)
    got = run(host, node, {}).reshape(-1)
    want = [start + step * i for i in range(100) if (start + step * i - stop) * step < 0]
    assert got.dtype == np.float32
    assert got.size == len(want)
    np.testing.assert_allclose(got, want, rtol=1e-7)


@pytest.mark.parametrize("fmt", TYPES, ids=str)
@pytest.mark.parametrize("arranged", ARRANGED, ids=lambda make: make.__name__)
@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("dim", range(4))
def test_slice(host: HostBackend, fmt, arranged, step: int, dim: int) -> None:
    """The length is what Python's slices have, for steps above 2, too."""
    x = Operands(77)
    a = arranged(x, fmt)
    for low, high in ((0, a.shape[dim]), (1, a.shape[dim]), (1, 2)):
        index = [np.s_[:]] * 4
        index[3 - dim] = np.s_[low:high:step]
        node = ops.slice_(a, dim, low, high, step)
        want = x.exact(a)[tuple(index)]
        assert node.shape == want.shape[::-1]
        got = run(host, ops.duplicate(node), x.values)
        assert_near(got, want, fmt)


def test_slices_are_views_but_for_steps_in_rows() -> None:
    x = Operands(78)
    a = packed(x, F32)
    assert ops.slice_(a, 1, 0, 4, 3).storage is a
    assert ops.slice_(a, 0, 2, 5).storage is a
    stepped = ops.slice_(a, 0, 0, 7, 2)
    assert stepped.storage is stepped
    assert stepped.is_contiguous


def test_writing_into_a_slice_of_a_permuted_tensor(host: HostBackend) -> None:
    x = Operands()
    a = x.put(F32, np.zeros((2, 3), np.float32))
    part = ops.slice_(a.permute(1, 0), 1, 1, 3)  # columns 1 and 2 of [2, 3] as rows
    values = x.put(F32, np.float32([[1, 2], [3, 4]]))
    read = ops.duplicate(ops.copy_into(values, part))
    assert run(host, read, x.values)[0, 0].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("dim", [1, 2])
def test_slices_of_blocks(host: HostBackend, dim: int) -> None:
    a, rows = blocks_of(Q8_0, 79, 64, 5, 4)
    index = [np.s_[:]] * 3
    index[2 - dim] = np.s_[1:4:2]
    got = run(host, ops.duplicate(ops.slice_(a, dim, 1, 4, 2)), {a: rows})
    assert np.array_equal(got, rows[tuple(index)].reshape(-1))


@pytest.mark.parametrize("fmt", [F32, F16], ids=str)
@pytest.mark.parametrize("arranged", ARRANGED, ids=lambda make: make.__name__)
@pytest.mark.parametrize("dim", range(4))
@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_chunks_put_together_are_the_whole(
    host: HostBackend, fmt, arranged, dim: int, size: int
) -> None:
    x = Operands(80)
    a = arranged(x, fmt)
    parts = ops.chunk(a, dim, size)
    n = a.shape[dim]
    assert [p.shape[dim] for p in parts] == [min(size, n - low) for low in range(0, n, size)]
    whole = ops.contiguous(ops.stack(dim, *parts))
    assert_near(run(host, whole, x.values), x.exact(a), fmt)


def test_sections(host: HostBackend) -> None:
    x = Operands(81)
    a = packed(x, F32)
    parts = ops.chunk_sections(a, 0, [1, 4, 2])
    for part, index in zip(parts, (np.s_[:1], np.s_[1:5], np.s_[5:]), strict=True):
        got = run(host, ops.duplicate(part), x.values)
        assert_near(got, x.exact(a)[..., index])
