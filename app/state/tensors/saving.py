"""A tensor's numbers as files and as text."""

from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np

from app.files import output
from app.state.tensors.numbers import Numbers, pieces
from app.state.tensors.statistics import PIECE, OnProgress
from engine.errors import Cancelled
from engine.gguf.dump import dump

EDGE = 3
MOST_ROWS, MOST_WHOLE = 64, 1000  # rows and numbers that a dump is made of


def save_npy(numbers: Numbers, path: Path, on_progress: OnProgress) -> bool:
    """All numbers, f32, in NumPy's order of dimensions. False where it was stopped; the file is
    there as a whole or not at all. Raises CutawayError.
    """

    def write(file: IO[bytes]) -> bool:
        shape = numbers.dims[::-1]
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_2_0(file, header)
        return _in_pieces(
            numbers, on_progress, lambda rows: file.write(rows.astype("<f4").tobytes())
        )

    return _whole(path, write)


def save_csv(numbers: Numbers, path: Path, on_progress: OnProgress) -> bool:
    """A line a row, as many digits as float32 has. As `save_npy`."""

    def write(file: IO[bytes]) -> bool:
        def lines(rows: np.ndarray) -> None:
            for row in rows:
                file.write((",".join(f"{x:.9g}" for x in row.tolist()) + "\n").encode())

        return _in_pieces(numbers, on_progress, lines)

    return _whole(path, write)


def dump_text(numbers: Numbers) -> str:
    """Format numbers as `cutaway dump` does; of a large one only what that shows is read."""
    if numbers.size <= MOST_WHOLE:
        values = numbers.read(range(numbers.rows), range(numbers.columns))
        return dump(values.reshape(numbers.dims[::-1]))
    kept = [min(n, 2 * EDGE + 1) for n in numbers.dims[1:]]
    rows = [0]
    stride = 1
    for n, few in zip(numbers.dims[1:], kept, strict=True):
        places = range(n) if n == few else [*range(EDGE), EDGE, *range(n - EDGE, n)]
        rows = [row + place * stride for place in places for row in rows]
        stride *= n
    columns = range(numbers.columns)
    values = np.concatenate([numbers.read(range(row, row + 1), columns) for row in rows])
    return dump(values.reshape(*kept[::-1], numbers.columns), threshold=0, edge_items=EDGE)


def _in_pieces(
    numbers: Numbers, on_progress: OnProgress, write: Callable[[np.ndarray], object]
) -> bool:
    runs, columns = pieces(numbers, PIECE), range(numbers.columns)
    for i, rows in enumerate(runs):
        write(numbers.read(rows, columns))
        if not on_progress(i + 1, len(runs)):
            return False
    return True


def _whole(path: Path, write: Callable[[IO[bytes]], bool]) -> bool:
    try:
        with output(path) as file:
            if not write(file):
                raise Cancelled("saving numbers")
    except Cancelled:
        return False
    return True
