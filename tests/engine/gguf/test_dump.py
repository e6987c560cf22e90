"""The layout of dumps: examples to the letter, every number read back, gaps at every depth."""

import re

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from engine.errors import BadSetting, UnsupportedModel
from engine.gguf.dequantize import dequantize
from engine.gguf.dump import dump
from engine.gguf.formats import BF16, F16, F32, F64, FORMATS, I8, I32, I64, UNREADABLE

NUMBER = re.compile(r"[ \[]([-+]?(?:\d[\d.]*|Inf)|NaN)")


def count(*shape: int, dtype=np.float32) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def test_two_rows() -> None:
    want = "[[ 0.0000,  1.0000,  2.0000],\n [ 3.0000,  4.0000,  5.0000]]"
    assert dump(count(2, 3)) == want


def test_a_number_without_dimensions() -> None:
    assert dump(np.array(1.5, np.float32)) == "[ 1.5000]"
    assert dump(np.int32(-3)) == "[-3]"


def test_a_long_row_of_integers() -> None:
    assert dump(count(10, dtype=np.int32), threshold=5) == "[ 0,  1,  2, ...,  7,  8,  9]"


def test_rows_are_left_out_on_a_line_of_their_own() -> None:
    assert dump(count(7, 1, dtype=np.int32), threshold=1) == (
        "[[ 0],\n [ 1],\n [ 2],\n ..., \n [ 4],\n [ 5],\n [ 6]]"
    )


def test_planes_are_an_empty_line_apart_and_their_rows_indented_by_two() -> None:
    assert dump(count(2, 2, 2, dtype=np.int32)) == (
        "[[[ 0,  1],\n  [ 2,  3]],\n\n [[ 4,  5],\n  [ 6,  7]]]"
    )


def test_what_is_not_a_number_and_signs() -> None:
    values = np.float32([np.nan, np.inf, -np.inf, -1.5, 0])
    assert dump(values, precision=1) == "[ NaN,  +Inf, -Inf, -1.5,  0.0]"


def test_leading_ones_are_dropped_and_inner_ones_kept() -> None:
    assert dump(count(1, 1, 2, 1), precision=0) == "[[ 0],\n [ 1]]"
    assert dump(count(1, 1, 1, 1), precision=0) == "[ 0]"


@pytest.mark.parametrize(("n", "shown"), [(6, 6), (7, 6), (1000, 6)])
def test_nothing_is_left_out_of_twice_the_edges(n: int, shown: int) -> None:
    text = dump(count(n, dtype=np.int32), threshold=1)
    assert len(NUMBER.findall(text)) == shown
    assert ("..." in text) == (n > 6)


def test_the_threshold_counts_all_elements() -> None:
    assert "..." not in dump(count(10, 100))
    assert "..." in dump(count(10, 101))


@pytest.mark.parametrize("shape", [(9,), (9, 8), (9, 8, 7), (3, 9, 8, 7)], ids=str)
def test_gaps_at_every_depth(shape: tuple[int, ...]) -> None:
    """What is shown is the first and last two of every dimension, in order."""
    values = count(*shape, dtype=np.int64)
    text = dump(values, threshold=8, edge_items=2)
    ends = [np.r_[0:2, n - 2 : n] if n > 4 else np.r_[0:n] for n in shape]
    assert list(map(int, NUMBER.findall(text))) == values[np.ix_(*ends)].reshape(-1).tolist()
    # One gap in each dimension that is cut, as often as its brackets are shown.
    shown = [len(e) for e in ends]
    gaps = sum(int(np.prod(shown[:d])) for d, n in enumerate(shape) if n > 4)
    assert text.count("...") == gaps
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        assert not line or line[indent:].startswith(("[", "..., "))


@settings(deadline=None)
@given(
    arrays.arrays(
        st.sampled_from([np.float32, np.float16, np.int32]),
        arrays.array_shapes(min_dims=1, max_dims=4, max_side=5),
    ),
    st.integers(0, 8),
)
def test_every_number_reads_back(values: np.ndarray, precision: int) -> None:
    text = dump(values, precision=precision)
    read = np.array(list(map(float, NUMBER.findall(text))))
    flat = values.astype(np.float64).reshape(-1)
    assert read.shape == flat.shape
    far = 0 if values.dtype.kind == "i" else 0.51 * 10**-precision
    assert np.allclose(read, flat, rtol=0, atol=far, equal_nan=True)
    assert text.count("[") == text.count("]")


def as_rows(values: np.ndarray, fmt) -> np.ndarray:
    """[..., row bytes] of any type; blocks where the package can make them."""
    if fmt == BF16:
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    return values.astype(fmt.dtype).view(np.uint8)


@pytest.mark.parametrize("fmt", [F32, F16, BF16, F64, I8, I32, I64], ids=str)
def test_plain_types(fmt) -> None:
    values = np.array([[0, 1, -2], [64, -127, 5]])
    shown = values if fmt in (I8, I32, I64) else values.astype(float)
    assert dump(as_rows(values, fmt), fmt, precision=2) == dump(shown, precision=2)


def test_wide_types_lose_nothing() -> None:
    assert dump(np.int64([2**53 + 1]).view(np.uint8), I64) == "[ 9007199254740993]"
    assert dump(np.float64([1 + 2**-40]).view(np.uint8), F64, precision=14) == "[ 1.00000000000091]"


@pytest.mark.parametrize(
    "fmt", [f for f in FORMATS.values() if f.quantized and f not in UNREADABLE], ids=str
)
def test_blocks_are_dequantised(fmt) -> None:
    """Any bits: the package's numbers, whatever they are."""
    blocks = np.random.default_rng(40).integers(0, 256, (3, 2, 2 * fmt.bytes), np.uint8)
    floats = dequantize(blocks, fmt)
    assert dump(blocks, fmt, threshold=10**6) == dump(floats, threshold=10**6)
    assert dump(blocks, fmt, threshold=0) == dump(floats, threshold=0)
    kind = gguf.GGMLQuantizationType[fmt.name]
    with np.errstate(all="ignore"):
        first = gguf.dequantize(blocks[0, 0], kind)[:3]
    wanted = dump(first, precision=3)[:-1]
    assert dump(blocks, fmt, precision=3, threshold=0).startswith(f"[[{wanted}, ..., ")


def test_only_shown_rows_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    monkeypatch.setattr(
        "engine.gguf.dump.dequantize",
        lambda row, fmt: decoded.append(1) or np.zeros(row.size // 2, np.float32),
    )
    dump(np.zeros((5000, 2, 8), np.uint8), BF16)
    assert len(decoded) == 12


def test_types_that_nobody_can_read_are_named() -> None:
    fmt = UNREADABLE[0]
    with pytest.raises(UnsupportedModel, match=fmt.name):
        dump(np.zeros((1, fmt.bytes), np.uint8), fmt)


@pytest.mark.parametrize("knob", ["precision", "threshold", "edge_items"])
def test_impossible_numbers(knob: str) -> None:
    with pytest.raises(BadSetting, match=f"{knob}: -1"):
        dump(count(3), **{knob: -1})
