"""Blocks of a quantised tensor as they are stored, and what they lose against another file."""

import re
import struct
from dataclasses import dataclass

import numpy as np

from app.state.tensors.numbers import Numbers, pieces
from app.state.tensors.statistics import PIECE, Told
from engine.gguf.dequantize import dequantize


@dataclass(frozen=True)
class StoredBlock:
    """A block of a row: its elements from `first` on, the half floats among its fields in order
    (scales, minima), the least and largest number it stands for, and all its bytes.
    """

    row: int
    first: int
    scales: tuple[float, ...]
    low: float
    high: float
    bytes: str


def stored_blocks(numbers: Numbers, row: int) -> list[StoredBlock]:
    """All blocks of a row. There are some only where the type has blocks."""
    fmt, read = numbers.fmt, numbers.blocks
    if fmt is None or read is None or not fmt.quantized:
        return []
    blocks = read(range(row, row + 1)).reshape(-1, fmt.bytes)
    values = dequantize(blocks, fmt)
    halves = _halves(fmt.fields)
    return [
        StoredBlock(
            row,
            i * fmt.block,
            tuple(float(block[at : at + 2].view("<f2")[0]) for at in halves),
            float(values[i].min()),
            float(values[i].max()),
            block.tobytes().hex(" "),
        )
        for i, block in enumerate(blocks)
    ]


def _halves(fields: str) -> list[int]:
    """Where in a block half floats begin."""
    found: list[int] = []
    at = 0
    for count, code in re.findall(r"(\d*)(\w)", fields):
        n = int(count or 1)
        width = struct.calcsize("=" + code)
        if code == "e":
            found += range(at, at + n * width, width)
        at += n * width
    return found


@dataclass(frozen=True)
class Loss:
    """The error of a tensor against the same tensor in another file: `worst` is the largest
    difference, at `row` and `column`; `nmse` the squared differences over the other's squares.
    """

    type: str
    rmse: float
    nmse: float
    worst: float
    row: int
    column: int


def loss(numbers: Numbers, exact: Numbers, told: Told = lambda done, total: True) -> Loss | None:
    """How far the numbers are from the exact ones, which have the same shape. None where it was
    stopped.
    """
    squares = scale = worst = 0.0
    place = (0, 0)
    runs, columns = pieces(numbers, PIECE), range(numbers.columns)
    for i, rows in enumerate(runs):
        other = exact.read(rows, columns).astype(np.float64)
        difference = np.abs(numbers.read(rows, columns) - other)
        squares += float((difference**2).sum())
        scale += float((other**2).sum())
        at = int(difference.argmax())
        if difference.reshape(-1)[at] > worst:
            worst = float(difference.reshape(-1)[at])
            row, column = divmod(at, len(columns))
            place = (rows.start + row, column)
        if not told(i + 1, len(runs)):
            return None
    rmse = float(np.sqrt(squares / max(1, numbers.size)))
    nmse = squares / scale if scale else float(squares > 0)
    return Loss(exact.type, rmse, nmse, worst, *place)
