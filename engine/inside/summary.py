"""A few numbers that stand for many: what a probed result is told as, token by token."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Summary(NamedTuple):
    """Of each row: root mean square and largest |x| of what is finite, where that is, and how many
    elements are NaN and infinite.
    """

    rms: NDArray[np.float32]
    largest: NDArray[np.float32]
    at: NDArray[np.int32]
    nan: NDArray[np.int32]
    inf: NDArray[np.int32]


def summarize(rows: Sequence[NDArray[np.float32]]) -> Summary:
    """Of each array, as one row of numbers; 0 where nothing is finite."""
    floats, ints = np.zeros((2, len(rows)), np.float32), np.zeros((3, len(rows)), np.int32)
    made = Summary(floats[0], floats[1], ints[0], ints[1], ints[2])
    for places in _alike(rows):
        values = np.stack([rows[i].reshape(-1) for i in places])
        sizes = np.abs(values)
        at = sizes.argmax(axis=1)  # the first NaN where there is one
        largest = sizes[np.arange(len(places)), at]
        if np.isfinite(largest).all():
            squares = np.einsum("ij,ij->i", values, values, dtype=np.float64)
            made.rms[places] = np.sqrt(squares / max(1, values.shape[1]))
            made.largest[places], made.at[places] = largest, at
        else:
            _with_others(made, places, sizes)
    return made


def _alike(rows: Sequence[NDArray[np.float32]]) -> list[list[int]]:
    """The places of rows of the same length."""
    found: dict[int, list[int]] = {}
    for i, row in enumerate(rows):
        if row.size:
            found.setdefault(row.size, []).append(i)
    return list(found.values())


def _with_others(made: Summary, places: list[int], sizes: NDArray[np.float32]) -> None:
    """As for finite numbers, where some are not; `sizes` are their absolute values."""
    nan, inf = np.isnan(sizes), np.isinf(sizes)
    finite = np.where(nan | inf, 0, sizes).astype(np.float64)
    count = np.maximum(1, sizes.shape[1] - nan.sum(axis=1) - inf.sum(axis=1))
    made.rms[places] = np.sqrt((finite**2).sum(axis=1) / count)
    made.largest[places], made.at[places] = finite.max(axis=1), finite.argmax(axis=1)
    made.nan[places], made.inf[places] = nan.sum(axis=1), inf.sum(axis=1)
