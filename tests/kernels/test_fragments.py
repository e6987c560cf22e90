"""Which numbers each lane brings to matrix units, and keeps, held against the vendors' manuals.

No such unit is here: NVIDIA's, AMD's and Intel's instructions are simulated from their documented
layouts, and are given what the very macros of parts/fragments.cl say. NVIDIA: PTX ISA, "Matrix
fragments for mma". AMD: RDNA3 ISA, "WMMA", and the Matrix Instruction Calculator for MFMA. Intel:
cl_intel_subgroup_matrix_multiply_accumulate.
"""

import io
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from pcpp import Preprocessor

from engine.backends.opencl.source import source

Place = Callable[[int, int], tuple[int, int]]
"""Lane and element to row (or column) and k; of sums to row and column."""


class Unit(NamedTuple):
    """An instruction: its size, numbers of `a` and of x that a lane brings, its sums, and where all
    of them belong.
    """

    rows: int
    columns: int
    k: int
    a: int
    x: int
    sums: int
    a_at: Place
    x_at: Place
    sum_at: Place


def _nvidia_bytes(k: int) -> Unit:
    return Unit(
        16,
        8,
        k,
        *(k // 2, k // 4, 4),
        lambda lane, e: (lane // 4 + 8 * (e // 4 % 2), lane % 4 * 4 + e % 4 + 16 * (e // 8)),
        lambda lane, e: (lane // 4, lane % 4 * 4 + e % 4 + 16 * (e // 4)),
        lambda lane, i: (lane // 4 + 8 * (i >= 2), lane % 4 * 2 + (i & 1)),
    )


UNITS = {
    "IMMA": _nvidia_bytes(32),
    "IMMA of 16": _nvidia_bytes(16),
    "HMMA": Unit(
        16,
        8,
        16,
        *(8, 4, 4),
        lambda lane, e: (
            lane // 4 + (0 if e in (0, 1, 4, 5) else 8),
            lane % 4 * 2 + (e & 1) + (8 if e >= 4 else 0),
        ),
        lambda lane, e: (lane // 4, lane % 4 * 2 + (e & 1) + (8 if e >= 2 else 0)),
        lambda lane, i: (lane // 4 + 8 * (i >= 2), lane % 4 * 2 + (i & 1)),
    ),
    "WMMA": Unit(
        16,
        16,
        16,
        *(16, 16, 8),
        lambda lane, e: (lane % 16, e),
        lambda lane, e: (lane % 16, e),
        lambda lane, i: (2 * i + (lane >= 16), lane % 16),
    ),
    "MFMA": Unit(
        16,
        16,
        16,
        *(4, 4, 4),
        lambda lane, e: (lane % 16, 4 * (lane // 16) + e),
        lambda lane, e: (lane % 16, 4 * (lane // 16) + e),
        lambda lane, i: (4 * (lane // 16) + i, lane % 16),
    ),
    "DPAS8": Unit(
        8,
        8,
        16,
        *(16, 16, 8),
        lambda lane, e: (e // 2, 2 * lane + e % 2),
        lambda lane, e: (lane, e),
        lambda lane, i: (i, lane),
    ),
    "DPAS16": Unit(
        8,
        16,
        16,
        *(8, 16, 8),
        lambda lane, e: (e, lane),
        lambda lane, e: (lane, e),
        lambda lane, i: (i, lane),
    ),
}
PLACES = ["A_ROW", "A_WORD", "X_COLUMN", "X_WORD", "SUM_ROW", "SUM_COLUMN"]
NUMBERS = [
    *("WAVE", "FRAGMENT_ROWS", "FRAGMENT_COLUMNS", "WAVE_ROWS", "WAVE_COLUMNS"),
    *("STEP", "A_WORDS", "X_WORDS", "LANE_SUMS", "A_STRIDE", "X_STRIDE", "SIDE", "ITEMS"),
]


class Macros(NamedTuple):
    """What the kernel's source says of a way."""

    numbers: dict[str, int]
    places: dict[str, Callable[[int, int], int]]


@cache
def macros(way: str) -> Macros:
    """By a preprocessor, and Python's own arithmetic on what it leaves."""
    preprocessor = Preprocessor()
    name, _, halved = way.partition(" of ")
    for define in (
        f"MATRIX {name}",
        *(["SUMS 2"] if halved else []),
        *(["X_BITS 16"] if "IMMA" not in name and name != "PLAIN" else ["X_BITS 12"]),
    ):
        preprocessor.define(define)
    probes = [f'@@ "{name}" {name}' for name in NUMBERS]
    probes += [f'@@ "{name}" {name}(lane, i)' for name in PLACES]
    preprocessor.parse(source("matrix_trial") + "\n" + "\n".join(probes))
    out = io.StringIO()
    preprocessor.write(out)
    found = {}
    for line in out.getvalue().splitlines():
        if line.startswith("@@"):
            _, name, text = line.split('"', 2)
            found[name] = text.replace("/", "//")
    numbers = {name: int(eval(found[name])) for name in NUMBERS}
    places = {name: eval(f"lambda lane, i: {found[name]}") for name in PLACES}
    return Macros(numbers, places)


def brought(way: str, side: str, words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """What lanes bring of a side's words in local memory: [lanes, words of a lane]."""
    m = macros(way)
    first, stride = ("A_ROW", "A_STRIDE") if side == "A" else ("X_COLUMN", "X_STRIDE")
    at = m.places[first], m.places[f"{side}_WORD"]
    return np.array(
        [
            [
                words[at[0](lane, i) * m.numbers[stride] + at[1](lane, i)]
                for i in range(m.numbers[f"{side}_WORDS"])
            ]
            for lane in range(m.numbers["WAVE"])
        ],
        np.uint32,
    )


def in_local_memory(values: NDArray[np.generic], stride: int) -> NDArray[np.uint32]:
    """Rows of words, `stride` apart, between numbers that nobody should read."""
    out = np.full((len(values), stride), 0x7F7F7F7F, np.uint32)
    words = np.ascontiguousarray(values).view(np.uint32)
    out[:, : words.shape[1]] = words
    return out.reshape(-1)


@pytest.mark.parametrize("way", UNITS)
def test_units_are_given_and_leave_what_the_manuals_say(way: str) -> None:
    unit, m, draws = UNITS[way], macros(way), np.random.default_rng(1)
    kind = np.int8 if "IMMA" in way else np.float16
    a = draws.integers(-100, 100, (unit.rows, unit.k)).astype(kind)
    x = draws.integers(-100, 100, (unit.columns, unit.k)).astype(kind)
    assert m.numbers["STEP"] * 4 == unit.k * a.itemsize
    of_a = brought(way, "A", in_local_memory(a, m.numbers["A_STRIDE"])).view(kind)
    of_x = brought(way, "X", in_local_memory(x, m.numbers["X_STRIDE"])).view(kind)
    if way == "DPAS16":  # a lane takes one half of each word
        of_a = np.array([row[lane % 2 :: 2] for lane, row in enumerate(of_a)])
    assert (of_a.shape[1], of_x.shape[1]) == (unit.a, unit.x)
    seen_a = np.full((unit.rows, unit.k), np.nan)
    seen_x = np.full((unit.columns, unit.k), np.nan)
    for lane in range(m.numbers["WAVE"]):
        for e in range(unit.a):
            seen_a[unit.a_at(lane, e)] = of_a[lane, e]
        for e in range(unit.x):
            seen_x[unit.x_at(lane, e)] = of_x[lane, e]
    got = np.full((unit.rows, unit.columns), np.nan)
    for lane in range(m.numbers["WAVE"]):
        for i in range(unit.sums):
            row, column = unit.sum_at(lane, i)
            at = m.places["SUM_ROW"](lane, i), m.places["SUM_COLUMN"](lane, i)
            got[at] = seen_a[row] @ seen_x[column]
    np.testing.assert_array_equal(got, a.astype(np.float64) @ x.astype(np.float64).T)


@pytest.mark.parametrize("way", [*UNITS, "PLAIN"])
def test_waves_make_every_sum_of_a_group_once(way: str) -> None:
    m = macros(way)
    n, places = m.numbers, m.places
    made = np.zeros((n["SIDE"], n["SIDE"]), int)
    for item in range(n["ITEMS"]):
        wave, lane = divmod(item, n["WAVE"])
        column, row = divmod(wave, n["SIDE"] // n["WAVE_ROWS"])
        for down in range(n["WAVE_ROWS"] // n["FRAGMENT_ROWS"]):
            for across in range(n["WAVE_COLUMNS"] // n["FRAGMENT_COLUMNS"]):
                for i in range(n["LANE_SUMS"]):
                    made[
                        row * n["WAVE_ROWS"]
                        + down * n["FRAGMENT_ROWS"]
                        + places["SUM_ROW"](lane, i),
                        column * n["WAVE_COLUMNS"]
                        + across * n["FRAGMENT_COLUMNS"]
                        + places["SUM_COLUMN"](lane, i),
                    ] += 1
    assert (made == 1).all()


@pytest.mark.parametrize("way", ["IMMA", "IMMA of 16", "HMMA", "PLAIN"])
@pytest.mark.parametrize("side", ["A", "X"])
def test_no_two_lanes_want_the_same_bank(way: str, side: str) -> None:
    """32 lanes read 32 banks of local memory at once, or the same words."""
    m = macros(way)
    row = m.places["A_ROW" if side == "A" else "X_COLUMN"]
    for i in range(m.numbers[f"{side}_WORDS"]):
        at = {
            row(lane, i) * m.numbers[f"{side}_STRIDE"] + m.places[f"{side}_WORD"](lane, i)
            for lane in range(32)
        }
        assert len({word % 32 for word in at}) == len(at)
