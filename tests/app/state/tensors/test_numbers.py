"""The numbers that the Tensors view shows, against the gguf package and plain NumPy."""

from itertools import permutations
from pathlib import Path

import gguf
import numpy as np
import pytest

from app.state.tensors.numbers import Numbers, ShownAxes, computed, sliced, usual_axes, weight
from app.state.tensors.saving import dump_text
from app.state.tensors.statistics import OUTLIERS, Statistics, loss, measured, stored_blocks
from app.weights import LocalWeights
from engine.errors import BadFile, BadSetting
from engine.gguf.dump import dump
from engine.gguf.formats import FORMATS, UNREADABLE
from tests.gguf_files import Blocks, Draft

READABLE = [fmt for fmt in FORMATS.values() if fmt not in UNREADABLE and fmt.name != "F64"]


def write(path: Path, order: str = "<") -> dict[str, np.ndarray]:
    """A file of random tensors, two of each type there is, and what the package makes of them."""
    rng = np.random.default_rng(13)
    draft, expected = Draft(order=order), {}
    for fmt in READABLE:
        for dims in ((3 * fmt.block, 7), (2 * fmt.block, 5, 3)):
            rows = int(np.prod(dims[1:]))
            data = rng.integers(0, 256, (rows, fmt.row_bytes(dims[0])), dtype=np.uint8)
            name = f"{fmt.name}.{len(dims)}"
            draft.tensors[name] = Blocks(fmt.id, dims, data.tobytes())
            with np.errstate(all="ignore"):
                kind = gguf.GGMLQuantizationType(fmt.id)
                known = fmt.dtype is not None
                wide = data.view(fmt.dtype) if known else gguf.dequantize(data, kind)
                expected[name] = wide.astype(np.float32)
    draft.write(path)
    return expected


@pytest.fixture
def every_type(tmp_path: Path) -> tuple[LocalWeights, dict[str, np.ndarray]]:
    expected = write(tmp_path / "types.gguf")
    return LocalWeights(tmp_path / "types.gguf"), expected


def test_every_type_bit_for_bit(every_type: tuple[LocalWeights, dict[str, np.ndarray]]) -> None:
    """Whole, and any piece of it: 50 tensors and more, of every type that can be read."""
    weights, expected = every_type
    assert len(expected) >= 50
    rng = np.random.default_rng(5)
    for name, values in expected.items():
        numbers = weight(weights, name)
        whole = numbers.read(range(numbers.rows), range(numbers.columns))
        np.testing.assert_array_equal(whole.view("u4"), values.view("u4"))
        for _ in range(4):
            low, high = sorted(rng.integers(0, numbers.rows + 1, 2))
            left, right = sorted(rng.integers(0, numbers.columns + 1, 2))
            rows, columns = range(low, high, 2), range(left, right, int(rng.integers(1, 4)))
            part = numbers.read(rows, columns)
            wanted = values[low:high:2, left : right : columns.step]
            np.testing.assert_array_equal(part.view("u4"), wanted.view("u4"))
        shown = sliced(numbers, usual_axes(numbers.dims, numbers.rows - 1))
        np.testing.assert_array_equal(
            shown.read(range(shown.rows), range(shown.columns)).view("u4"),
            values[-shown.rows :].view("u4"),
        )
    weights.close()
    with pytest.raises(BadFile, match="closed"):
        numbers.read(range(1), range(1))


def test_a_file_that_shrinks_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "types.gguf"
    write(path)
    weights = LocalWeights(path)
    path.write_bytes(path.read_bytes()[:-2000])
    name = list(weights.tensors)[-1]
    with pytest.raises(BadFile, match="ends before byte"):
        weights.numbers(name, range(15), range(8))
    with pytest.raises(BadSetting, match="rows"):
        weights.numbers(name, range(1000), range(1))


def random_numbers(rows: int, columns: int, holes: bool = True) -> tuple[Numbers, np.ndarray]:
    rng = np.random.default_rng(rows)
    values = rng.standard_normal((rows, columns)).astype(np.float32)
    if holes:
        values[1, 2], values[3, 4], values[0, 0], values[5, 5] = np.nan, np.inf, 0, -np.inf
        values[rows - 1, 1] = -1e4
    return computed("x", values, "F32", ""), values


@pytest.mark.parametrize("columns", [7, 300_000])
def test_statistics(columns: int) -> None:
    """In one piece or many, against NumPy in float64."""
    rows = 9
    numbers, values = random_numbers(rows, columns)
    found = measured(numbers)
    assert found is not None
    wide = values.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    for got, want in (
        (found.low, finite.min()),
        (found.high, finite.max()),
        (found.mean, finite.mean()),
        (found.deviation, finite.std()),
        (found.absolute, np.abs(finite).sum()),
        (found.norm, np.linalg.norm(finite)),
    ):
        assert got == pytest.approx(want, rel=1e-9)
    assert (found.zeros, found.nan, found.inf) == ((values == 0).sum(), 1, 2)
    assert found.counts.sum() == finite.size
    np.testing.assert_array_equal(found.counts, np.histogram(finite, found.edges)[0])
    np.testing.assert_allclose(
        found.norms, np.sqrt(np.nansum(np.where(np.isfinite(wide), wide, 0) ** 2, axis=1))
    )
    order = np.argsort(-np.abs(np.where(np.isfinite(wide), wide, 0)).reshape(-1), kind="stable")
    places = [divmod(int(at), columns) for at in order[:OUTLIERS]]
    assert [(o.row, o.column) for o in found.outliers] == places
    assert found.outliers[0].value == -1e4


def test_statistics_stop_where_they_are_told() -> None:
    numbers, _ = random_numbers(9, 300_000)
    heard: list[tuple[int, int]] = []

    def told(done: int, total: int) -> bool:
        heard.append((done, total))
        return len(heard) < 3

    assert measured(numbers, told) is None
    assert [done for done, _ in heard] == [1, 2, 3]
    assert Statistics().mean != Statistics().mean  # of nothing there is none


@pytest.mark.parametrize("dims", [(5,), (7, 9), (64, 40), (3, 2000), (6, 9, 11), (40, 3, 2, 9)])
def test_dump_text_reads_only_what_it_shows(dims: tuple[int, ...]) -> None:
    values = np.arange(np.prod(dims), dtype=np.float32).reshape(dims[::-1])
    numbers = computed("x", values, "F32", "")
    assert dump_text(numbers) == dump(values)


def test_blocks_of_a_row(every_type: tuple[LocalWeights, dict[str, np.ndarray]]) -> None:
    weights, expected = every_type
    blocks = stored_blocks(weight(weights, "Q4_K.3"), 14)
    values = expected["Q4_K.3"][14].reshape(2, 256)
    stored = weights.blocks("Q4_K.3", range(14, 15)).reshape(2, 144)
    assert [b.first for b in blocks] == [0, 256]
    for block, numbers, data in zip(blocks, values, stored, strict=True):
        halves = data[:4].view("<f2").astype(float)
        np.testing.assert_array_equal(block.scales, halves)
        np.testing.assert_array_equal([block.low, block.high], [numbers.min(), numbers.max()])
        assert bytes.fromhex(block.bytes) == data.tobytes()
    assert stored_blocks(weight(weights, "F32.2"), 0) == []


def test_loss_against_another_file() -> None:
    rng = np.random.default_rng(2)
    exact = rng.standard_normal((50, 64)).astype(np.float32)
    rough = exact + rng.normal(0, 0.01, exact.shape).astype(np.float32)
    rough[31, 7] += 0.5
    found = loss(computed("x", rough, "Q4", ""), computed("x", exact, "F32", ""))
    assert found is not None
    difference = rough.astype(float) - exact
    assert found.rmse == pytest.approx(np.sqrt((difference**2).mean()))
    assert found.nmse == pytest.approx((difference**2).sum() / (exact.astype(float) ** 2).sum())
    assert (found.row, found.column) == (31, 7)
    assert found.worst == pytest.approx(np.abs(difference).max())


def test_any_two_dimensions_as_rows_and_columns() -> None:
    """Against NumPy: all pairs of four dimensions, whole and pieces, at places of the others."""
    values = np.random.default_rng(3).standard_normal((3, 4, 5, 6)).astype(np.float32)
    numbers = computed("x", values, "F32", "")
    assert numbers.dims == (6, 5, 4, 3)
    for columns, rows in permutations(range(4), 2):
        axes = ShownAxes(columns, rows, (5, 3, 2, 1))
        places = {dim: axes.at[dim] for dim in axes.others(4)}
        wanted = values[tuple(places.get(3 - k, slice(None)) for k in range(4))]
        wanted = wanted if rows > columns else wanted.T
        shown = sliced(numbers, axes)
        assert shown.dims == (numbers.dims[columns], numbers.dims[rows])
        whole = shown.read(range(shown.rows), range(shown.columns))
        np.testing.assert_array_equal(whole, wanted)
        part = shown.read(range(1, shown.rows, 2), range(0, shown.columns, 2))
        np.testing.assert_array_equal(part, wanted[1::2, ::2])
    assert ShownAxes(0, 1).with_columns(1) == ShownAxes(1, 0)
    assert ShownAxes(0, 2).with_rows(1) == ShownAxes(0, 1)
    assert usual_axes((6, 5, 4, 3), row=2 + 5 * (3 + 4 * 1)).at == (0, 2, 3, 1)


def test_dimensions_of_what_is_stored_in_blocks(tmp_path: Path) -> None:
    """Experts, as the columns of one row: read from the file, in its type."""
    write(tmp_path / "types.gguf")
    weights = LocalWeights(tmp_path / "types.gguf")
    name = next(n for n, info in weights.tensors.items() if info.n_dims > 2 and info.fmt.quantized)
    numbers = weight(weights, name)
    flat = numbers.read(range(numbers.rows), range(numbers.columns))
    whole = flat.reshape(numbers.dims[::-1])
    last = tuple(size - 1 for size in numbers.dims)
    for columns, rows in ((0, 2), (2, 0), (1, 2), (2, 1)):
        shown = sliced(numbers, ShownAxes(columns, rows, last))
        (other,) = {0, 1, 2} - {columns, rows}
        wanted = np.take(whole, last[other], axis=2 - other)
        wanted = wanted if rows > columns else wanted.T
        found = shown.read(range(shown.rows), range(shown.columns))
        np.testing.assert_array_equal(found, wanted)
    weights.close()
