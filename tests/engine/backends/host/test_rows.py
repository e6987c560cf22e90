"""Gather and scatter, row by row."""

import gguf
import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.gguf.dequantize import QUANTIZABLE
from engine.gguf.formats import BF16, F16, F32, I32, I64, Q8_0, by_name
from engine.graph import ops
from engine.graph.arrays import encode
from engine.graph.tensor import Role, leaf
from tests.kernels.harness import run

IDS = np.int32([2, -1, 0, 2, 4])


@pytest.mark.parametrize("name", ["Q4_1", "Q5_0", "Q8_0"])
def test_rows_are_dequantised_and_padding_gives_zeros(host: HostBackend, name: str) -> None:
    kind = gguf.GGMLQuantizationType[name]
    x, ids = leaf("x", by_name(name), (64, 5), Role.WEIGHT), leaf("ids", I32, (5,), Role.INPUT)
    values = np.random.default_rng(12).standard_normal((5, 64)).astype(np.float32)
    blocks = gguf.quantize(values, kind)
    got = run(host, ops.rows(x, ids), {x: blocks, ids: IDS})[0, 0]
    whole = gguf.dequantize(blocks, kind)
    for row, i in zip(got, IDS, strict=True):
        assert np.array_equal(row, whole[i] if i >= 0 else np.zeros(64))


def test_rows_of_integers_and_of_a_strided_view(host: HostBackend) -> None:
    x, ids = leaf("x", I32, (6, 5), Role.INPUT), leaf("ids", I32, (5,), Role.INPUT)
    values = np.arange(30, dtype=np.int32).reshape(5, 6)
    columns = x.view(8, (3, 5), (24,))
    got = run(host, ops.rows(columns, ids), {x: values, ids: IDS})[0, 0]
    assert got.dtype == np.int32
    assert got[:, 0].tolist() == [14, 0, 2, 14, 26]
    assert got[1].tolist() == [0, 0, 0]


@pytest.mark.parametrize("fmt", [F32, F16, BF16], ids=str)
def test_set_rows_writes_its_rows_and_no_other(host: HostBackend, fmt) -> None:
    rng = np.random.default_rng(13)
    target, values, ids = (
        leaf("target", fmt, (3, 6), Role.CACHE),
        leaf("values", F32, (3, 5), Role.INPUT),
        leaf("ids", I32, (5,), Role.INPUT),
    )
    before = rng.integers(0, 256, target.nbytes, np.uint8)
    new = rng.standard_normal((5, 3)).astype(np.float32)
    wanted = np.int32([5, -1, 0, 3, -1])
    got = run(
        host, ops.set_rows(target, values, ids), {target: before, values: new, ids: wanted}
    ).reshape(6, 3)
    old = before.view(got.dtype).reshape(6, 3)
    for row in range(6):
        here = np.flatnonzero(wanted == row)
        want = stored(new[here[0]], fmt) if here.size else old[row]
        assert np.array_equal(got[row].view(np.uint8), want.view(np.uint8))


def test_reading_through_set_rows_sees_the_write(host: HostBackend) -> None:
    cache, values, ids = (
        leaf("cache", F16, (4, 3), Role.CACHE),
        leaf("values", F32, (4, 1), Role.INPUT),
        leaf("ids", I32, (1,), Role.INPUT),
    )
    written = ops.set_rows(cache, values, ids)
    first_two = ops.cast(written.view(0, (4, 2), (8,)), F32)
    given = {cache: np.ones((3, 4), np.float16), values: np.float32([[1, 2, 3, 4]])}
    got = run(host, first_two, given | {ids: np.int32([1])})
    assert got[0, 0].tolist() == [[1, 1, 1, 1], [1, 2, 3, 4]]


@pytest.mark.parametrize("fmt", QUANTIZABLE, ids=str)
def test_set_rows_quantises_as_the_package_does(host: HostBackend, fmt) -> None:
    rng = np.random.default_rng(16)
    target, values, ids = (
        leaf("target", fmt, (256, 6), Role.CACHE),
        leaf("values", F32, (256, 3), Role.INPUT),
        leaf("ids", I32, (3,), Role.INPUT),
    )
    before = rng.integers(0, 256, (6, fmt.row_bytes(256)), np.uint8)
    new = rng.standard_normal((3, 256)).astype(np.float32)
    fed = {target: before, values: new, ids: np.int32([4, -1, 0])}
    got = run(host, ops.set_rows(target, values, ids), fed).reshape(before.shape)
    want = before.copy()
    want[[4, 0]] = gguf.quantize(new[[0, 2]], gguf.GGMLQuantizationType[fmt.name])
    assert np.array_equal(got, want)


def batched_ids(fmt, seed: int, most: int, *shape: int) -> np.ndarray:
    """Distinct ids along the last axis, every fourth one padding."""
    rng = np.random.default_rng(seed)
    ids = np.array([rng.permutation(most)[: shape[-1]] for _ in range(int(np.prod(shape[:-1])))])
    ids[:, ::4] = -1
    return ids.reshape(shape).astype(fmt.dtype)


@pytest.mark.parametrize("fmt", [F32, F16, BF16, I32, Q8_0], ids=str)
def test_rows_of_batches(host: HostBackend, fmt) -> None:
    """x [D, R, n2, n3] and ids [n, n2, n3]: each batch by its own ids."""
    rng = np.random.default_rng(17)
    x, ids = leaf("x", fmt, (32, 7, 3, 2), Role.INPUT), leaf("ids", I32, (5, 3, 2), Role.INPUT)
    numbers = rng.integers(-127, 128, (2, 3, 7, 32)).astype(np.float32)
    numbers[..., 0] = 127  # a scale of 1: exact in Q8_0, too
    wanted = batched_ids(I32, 18, 7, 2, 3, 5)
    got = run(host, ops.rows(x, ids), {x: encode(numbers, fmt).view(np.uint8), ids: wanted})
    assert got.dtype == (np.int32 if fmt == I32 else np.float32)
    for k, j, i in np.ndindex(2, 3, 5):
        row = wanted[k, j, i]
        want = numbers[k, j, row] if row >= 0 else np.zeros(32)
        assert np.array_equal(got[k, j, i], want)


@pytest.mark.parametrize("ids_fmt", [I32, I64], ids=str)
@pytest.mark.parametrize("batches", [(1, 1), (2, 1), (1, 3), (2, 3)], ids=str)
def test_set_rows_of_batches_repeats_the_ids(host: HostBackend, ids_fmt, batches) -> None:
    """ids [n, i2, i3] into target [D, R, n2, n3]: batch (j, k) takes ids (j mod i2, k mod i3)."""
    i3, i2 = batches
    target, values, ids = (
        leaf("target", F16, (3, 7, 6, 4), Role.CACHE),
        leaf("values", F32, (3, 5, 6, 4), Role.INPUT),
        leaf("ids", ids_fmt, (5, i2, i3), Role.INPUT),
    )
    rng = np.random.default_rng(19)
    before = rng.standard_normal((4, 6, 7, 3)).astype(np.float16)
    new = rng.standard_normal((4, 6, 5, 3)).astype(np.float32)
    wanted = batched_ids(ids_fmt, 20, 7, i3, i2, 5)
    fed = {target: before, values: new, ids: wanted}
    got = run(host, ops.set_rows(target, values, ids), fed)
    want = before.copy()
    for k, j, i in np.ndindex(4, 6, 5):
        row = wanted[k % i3, j % i2, i]
        if row >= 0:
            want[k, j, row] = new[k, j, i].astype(np.float16)
    assert np.array_equal(got, want)


def test_set_rows_into_a_window(host: HostBackend) -> None:
    """Columns 2 to 4 of rows 1 to 3, and nothing around them; the values are permuted."""
    cache, values, ids = (
        leaf("cache", F32, (6, 5), Role.CACHE),
        leaf("values", F32, (2, 3), Role.INPUT),
        leaf("ids", I64, (2,), Role.INPUT),
    )
    window = cache.view(24 + 8, (3, 3), (24,))
    before = np.zeros((5, 6), np.float32)
    new = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    node = ops.duplicate(ops.set_rows(window, values.permute(1, 0), ids))
    got = run(host, node, {cache: before, values: new, ids: np.int64([2, 0])})
    assert got[0, 0].tolist() == [[2, 4, 6], [0, 0, 0], [1, 3, 5]]


def stored(values: np.ndarray, fmt) -> np.ndarray:
    """Rounded to the type; bf16 by choosing the nearer of the two neighbours in float64."""
    if fmt != BF16:
        return values.astype(fmt.dtype)
    low = (values.view(np.uint32) >> 16).astype(np.uint32)
    down, up = ((bits << 16).view(np.float32).astype(float) for bits in (low, low + 1))
    return np.where(abs(values - down) <= abs(up - values), low, low + 1).astype(np.uint16)
