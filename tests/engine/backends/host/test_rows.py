"""Gather and scatter, row by row."""

import gguf
import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.errors import NotSupported
from engine.gguf.formats import BF16, F16, F32, I32, Q8_0, by_name
from engine.graph import ops
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


def test_blocks_cannot_be_written(host: HostBackend) -> None:
    target, values, ids = (
        leaf("target", Q8_0, (32, 2), Role.CACHE),
        leaf("values", F32, (32, 1), Role.INPUT),
        leaf("ids", I32, (1,), Role.INPUT),
    )
    given = {target: np.zeros(68, np.uint8), values: np.zeros((1, 32), np.float32)}
    with pytest.raises(NotSupported, match="Q8_0"):
        run(host, ops.set_rows(target, values, ids), given | {ids: np.int32([0])})


def stored(values: np.ndarray, fmt) -> np.ndarray:
    """Rounded to the type; bf16 by choosing the nearer of the two neighbours in float64."""
    if fmt != BF16:
        return values.astype(fmt.dtype)
    low = (values.view(np.uint32) >> 16).astype(np.uint32)
    down, up = ((bits << 16).view(np.float32).astype(float) for bits in (low, low + 1))
    return np.where(abs(values - down) <= abs(up - values), low, low + 1).astype(np.uint16)
