"""From a view's pixels to the patches that a tower reads, in the order it wants them in."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]


def cut(pixels: Floats, patch: int) -> Floats:
    """f32 [h, w, 3] -> [h/P * w/P, 3*P*P]: patches in raster order, each by channel, then row.

    What lies beyond the last whole patch is dropped.
    """
    h, w, channels = pixels.shape
    rows, cols = h // patch, w // patch
    whole = pixels[: rows * patch, : cols * patch]
    tiles = whole.reshape(rows, patch, cols, patch, channels).transpose(0, 2, 4, 1, 3)
    return np.ascontiguousarray(tiles).reshape(rows * cols, channels * patch * patch)


def neighbours(cols: int, rows: int, merge: int) -> Ints:
    """i32 [rows * cols]: a grid's places, numbered in raster order, so that the merge x merge of
    each cell stand together: cells in raster order, and places in a cell too.
    """
    places = np.arange(rows * cols, dtype=np.int32)
    cells = places.reshape(rows // merge, merge, cols // merge, merge)
    return cells.transpose(0, 2, 1, 3).reshape(-1)
