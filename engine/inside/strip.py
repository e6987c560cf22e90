"""Numbers of probed results, token by token, of those that were not sent yet.

What a step leaves in its rings waits as it is, and that of many steps is summed up at once.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.models.axes import cut
from engine.protocol import ProbedRow, ProbedTokens
from engine.runner.stepper import StartedStep
from engine.scheduler.probed import Slot
from engine.units import MIB

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


EVERY = 0.05
"""Seconds that are sent together."""

AT_ONCE = 64
"""Most tokens that are sent together."""

WAITING = MIB
"""Bytes of rings that wait to be summed up, but for those of one step, which may be larger."""

_LAYER = re.compile(r".*-(\d+)")

Rings = Mapping[str, Floats]
"""By device."""


class ProbeStrip:
    """Tokens of an answer of which nothing was sent yet, all with the same rows."""

    def __init__(self, request_id: int) -> None:
        self._id = request_id
        self._first = self._n = 0
        self._layout: _Layout | None = None
        self._waiting: list[Rings] = []  # of the latest tokens
        self._summaries: list[Summary] = []  # [tokens, rows], of those before
        self._before: list[ProbedTokens] = []
        self._due = 0.0

    def add(self, index: int, step: StartedStep, patterns: Sequence[str]) -> None:
        """Add the token's results of a step that has ended, for results that match a pattern."""
        layout = self._layout
        if layout is None or not layout.fits(step, patterns):
            layout = self._follow(_Layout(step, patterns))
        if not layout.rows:
            return
        if not self._n:
            self._first = index
        self._n += 1
        self._waiting.append(step.plan.ring_data.floats)
        if len(self._waiting) * layout.ring_bytes > WAITING:
            self._sum_up()

    def is_due(self) -> bool:
        """True if what was found is due."""
        late = self._n > 0 and perf_counter() >= self._due
        return late or self._n >= AT_ONCE or bool(self._before)

    def replies(self) -> list[ProbedTokens]:
        """Everything that was found; then it is forgotten."""
        found, self._before = self._before, []
        if self._n and self._layout is not None:
            self._sum_up()
            rms, largest, at, nan, inf = (
                np.concatenate(column).tobytes() for column in zip(*self._summaries, strict=True)
            )
            rows = self._layout.rows
            probed = ProbedTokens(self._id, self._first, rows, rms, largest, at, nan, inf)
            found = [*found, probed]
            self._summaries, self._n = [], 0
            self._due = perf_counter() + EVERY
        return found

    def _follow(self, layout: "_Layout") -> "_Layout":
        """Results lie elsewhere from now on, or are others."""
        if self._layout is not None and self._layout.rows != layout.rows:
            self._before = self.replies()
        self._sum_up()
        self._layout = layout
        return layout

    def _sum_up(self) -> None:
        if self._waiting and self._layout is not None:
            self._summaries.append(self._layout.summary(self._waiting))
            self._waiting = []


class _AlikeRows(NamedTuple):
    """Some rows of the strip, all of `size` numbers of a device's ring at `places`."""

    device: str
    size: int
    rows: list[int]
    places: NDArray[np.intp] | slice


class _Layout:
    """Where the named results of a plan's steps lie in its rings, cut to what is real of them."""

    def __init__(self, step: StartedStep, patterns: Sequence[str]) -> None:
        data, axes = step.plan.ring_data, step.axes
        slots = [slot for slot in data.slots if _is_named(slot.key.name, tuple(patterns))]
        counts = {axis.of for slot in slots for axis in axes.get(slot.node, ())}
        self.rows = [ProbedRow(*slot.key, layer_of(slot.key.name)) for slot in slots]
        self.ring_bytes = sum(ring.nbytes for ring in data.floats.values())
        self._slots, self._patterns = data.slots, tuple(patterns)
        self._real = {count: count(step.real) for count in counts}
        self._parts = _parts([(slot.device, _places(slot, step)) for slot in slots])

    def fits(self, step: StartedStep, patterns: Sequence[str]) -> bool:
        """True if that step's results lie there too."""
        return (
            step.plan.ring_data.slots is self._slots
            and tuple(patterns) == self._patterns
            and all(count(step.real) == n for count, n in self._real.items())
        )

    def summary(self, rings: Sequence[Rings]) -> Summary:
        """[tokens, rows] of what so many steps left."""
        made = nothing(len(rings), len(self.rows))
        for device, size, rows, places in self._parts:
            values = np.stack([ring[device][places] for ring in rings])
            found = summarize(values.reshape(len(rings) * len(rows), size))
            for column, numbers in zip(made, found, strict=True):
                column[:, rows] = numbers.reshape(len(rings), len(rows))
        return made


def layer_of(name: str) -> int | None:
    """The layer that a result's name ends with: 3 for `l_out-3`."""
    found = _LAYER.fullmatch(name)
    return int(found[1]) if found else None


@lru_cache(1 << 12)
def _is_named(name: str, patterns: tuple[str, ...]) -> bool:
    """True if a result was kept for a pattern, not for something else."""
    return bool(name) and any(re.fullmatch(pattern, name) for pattern in patterns)


def _places(slot: Slot, step: StartedStep) -> NDArray[np.intp]:
    """Places of a result that are no padding."""
    every = np.arange(slot.elements.start, slot.elements.stop, dtype=np.intp)
    return cut(every.reshape(slot.node.shape[::-1]), slot.node, step.axes, step.real).reshape(-1)


def _parts(lie: Sequence[tuple[str, NDArray[np.intp]]]) -> list[_AlikeRows]:
    """Rows of the same length on the same device together."""
    alike: dict[tuple[str, int], list[int]] = {}
    for row, (device, places) in enumerate(lie):
        alike.setdefault((device, places.size), []).append(row)
    found = []
    for (device, size), rows in alike.items():
        places = np.stack([lie[row][1] for row in rows])
        found.append(_AlikeRows(device, size, rows, _as_slice(places)))
    return found


def _as_slice(places: NDArray[np.intp]) -> NDArray[np.intp] | slice:
    """The same, where they follow each other: that copies nothing."""
    flat = places.reshape(-1)
    if flat.size and np.array_equal(flat, np.arange(flat[0], flat[0] + flat.size)):
        return slice(int(flat[0]), int(flat[-1]) + 1)
    return places
