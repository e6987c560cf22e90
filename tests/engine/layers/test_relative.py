"""Buckets of relative positions."""

from math import floor, log

import numpy as np
import pytest

from engine.layers.relative import buckets


def by_paper(distance: int, n: int, both: bool) -> int:
    """One distance by the definition: half of a side's buckets for single distances, the others
    for the logarithm up to 128.
    """
    first = 0
    if both:
        n //= 2
        first = n if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    near = n // 2
    if distance < near:
        return first + distance
    wide = near + floor(log(distance / near) / log(128 / near) * (n - near) + 1e-9)
    return first + min(wide, n - 1)


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("n", [4, 8, 32, 64])
def test_as_defined(n: int, both: bool) -> None:
    distances = np.arange(-1000, 1001)
    found = buckets(distances, n, both)
    assert found.tolist() == [by_paper(d, n, both) for d in distances.tolist()]
    assert found.max() == n - 1


def test_two_axes_stay() -> None:
    at = np.arange(3)
    found = buckets(at[None, :] - at[:, None], 32, both=True)
    assert found.tolist() == [[0, 17, 18], [1, 0, 17], [2, 1, 0]]
