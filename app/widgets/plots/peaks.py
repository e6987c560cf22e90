"""Long lines with no more points than can be seen."""

import numpy as np

from app.widgets.plots.colours import Floats

FEW = 4096  # points that are all drawn


def peaks(x: Floats, y: Floats, left: float, right: float, most: int) -> tuple[Floats, Floats]:
    """The points of a line between two places, and one beyond on each side; where these are many,
    the lowest and the highest of each of `most` runs. Lines whose `x` falls somewhere stay whole.
    """
    if len(x) <= FEW or not (np.diff(x) >= 0).all():
        return x, y
    first = max(0, int(np.searchsorted(x, left)) - 1)
    last = min(len(x), int(np.searchsorted(x, right, "right")) + 1)
    x, y = x[first:last], y[first:last]
    if len(x) <= max(FEW, 2 * most):
        return x, y
    starts = np.linspace(0, len(x), most, endpoint=False).astype(np.intp)
    pairs = np.fmin.reduceat(y, starts), np.fmax.reduceat(y, starts)  # NaN only where all are
    return np.repeat(x[starts], 2), np.stack(pairs, axis=1).ravel()
