"""Buckets of relative positions, each with a learned bias a head (Raffel et al. 2020)."""

import numpy as np
from numpy.typing import NDArray

from engine.weights.params import Range

FAR = 128
"""Distances from here on are in the last bucket of their side."""
BUCKETS = Range(4, 2 * FAR - 2)
"""How many there may be: each side has one at least for near distances, one at most for each."""


def buckets(distances: NDArray[np.int_], n: int, both: bool) -> NDArray[np.int32]:
    """The bucket of `n` of each distance from a query to a key; negative: the key is before it.

    Where queries see `both` sides, each has half of the buckets. Half of a side's are of single
    distances, the others widen with the logarithm up to `FAR`. Logarithms are float32, as those
    of the model's training.
    """
    side = n // 2 if both else n
    near = side // 2
    far = np.abs(distances) if both else -np.minimum(distances, 0)
    ratio = np.log(np.maximum(far, near).astype(np.float32) / np.float32(near))
    steps = ratio / np.float32(np.log(FAR / near)) * np.float32(side - near)
    wide = np.minimum(near + steps.astype(np.int32), side - 1)
    first = np.where(distances > 0, side, 0) if both else 0
    found: NDArray[np.int32] = (first + np.where(far < near, far, wide)).astype(np.int32)
    return found
