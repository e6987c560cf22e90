"""The edits of one step: which results are hooked, and the instructions of its tokens as arrays."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NONE = -1
"""No layer, or no occurrence chosen."""


class Point(NamedTuple):
    """A result that is hooked: its name or alias, its layer, which of several (NONE: the last, of
    an alias all), and whether what entered the layer is taken off meanwhile.
    """

    site: str
    layer: int = NONE
    occurrence: int = NONE
    delta: bool = False


class EditShape(NamedTuple):
    """Describe what a plan is built for: the points, how many instructions, and how many vectors
    of each row length.
    """

    points: tuple[Point, ...] = ()
    instructions: int = 0
    vectors: tuple[tuple[int, int], ...] = ()


NO_EDITS = EditShape()


class StepEdits(NamedTuple):
    """Instructions as in engine/graph/ops/edit.py: `code` and `number` [M, 8], `vectors` [N, R] by
    row length R, and of each point and token the first instruction and their count [points, T].
    """

    shape: EditShape
    code: NDArray[np.int32]
    number: NDArray[np.float32]
    vectors: Mapping[int, NDArray[np.float32]]
    firsts: NDArray[np.int32]
    counts: NDArray[np.int32]
