"""A few numbers that stand for many: what a probed result is told as, token by token."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class Summary(NamedTuple):
    """Summary of each row: root mean square and largest |x| of what is finite, where that is, and
    how many elements are NaN and infinite.
    """

    rms: Floats
    largest: Floats
    at: NDArray[np.int32]
    nan: NDArray[np.int32]
    inf: NDArray[np.int32]


def nothing(*shape: int) -> Summary:
    """Zeros."""
    floats, ints = np.zeros((2, *shape), np.float32), np.zeros((3, *shape), np.int32)
    return Summary(*floats, *ints)


def summarize(values: Floats) -> Summary:
    """Summarize rows [n, size]; 0 where no element is finite."""
    made = nothing(len(values))
    if not values.size:
        return made
    sizes = np.abs(values)
    at = sizes.argmax(axis=1)  # the first NaN where there is one
    largest = sizes[np.arange(len(values)), at]
    if np.isfinite(largest).all():
        squares = np.einsum("ij,ij->i", values, values, dtype=np.float64)
        made.rms[:] = np.sqrt(squares / values.shape[1])
        made.largest[:], made.at[:] = largest, at
    else:
        _with_others(made, sizes)
    return made


def _with_others(made: Summary, sizes: Floats) -> None:
    """Summarize rows in which some elements are not finite; `sizes` are their absolute values."""
    made.nan[:], made.inf[:] = np.isnan(sizes).sum(axis=1), np.isinf(sizes).sum(axis=1)
    finite = np.where(np.isfinite(sizes), sizes, 0).astype(np.float64)
    count = np.maximum(1, sizes.shape[1] - made.nan - made.inf)
    made.rms[:] = np.sqrt((finite**2).sum(axis=1) / count)
    made.largest[:], made.at[:] = finite.max(axis=1), finite.argmax(axis=1)
