"""Events of a running plan, kept for those who want them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from engine.device.backend import Commands, Event, Ran, Spans
from engine.graph.tensor import Tensor
from engine.protocol import SplitRecord
from engine.scheduler.lifetimes import LoweredSplit
from engine.scheduler.outline import Outline

Values = Mapping[Tensor, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class HostSpan:
    """Work of the host, from `start` to `end` in time.perf_counter_ns()."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy into a split: `device#tensor`, its bytes, and when its parts ran, in nanoseconds of
    time.perf_counter_ns() and by the devices' own word: read from one, written to the other.
    """

    split: int
    name: str
    size: int
    parts: tuple[tuple[int, int], ...]

    @property
    def ns(self) -> int:
        """The sum of the parts' times."""
        return sum(end - start for start, end in self.parts)


class Recorder:
    """Records nothing: how every step runs unless somebody measures it."""

    measures = False
    """Whether devices keep times."""

    def given(self, made: Outline, inputs: Values) -> None:
        """A step with this outline begins, with these inputs."""

    def done(self, name: str) -> None:
        """The host has finished the work it began at the last call of `done`."""

    def moved(self, split: int, name: str, size: int, events: Sequence[Event]) -> None:
        """A copy for a split was queued, as these commands."""

    def run(self, split: int, device: str, commands: Commands) -> None:
        """Run the commands of a split on a device."""
        commands.run()


UNRECORDED = Recorder()


@dataclass(frozen=True, slots=True)
class RanSplit:
    """The launches of one split: what `commands` say was launched, and when each ran."""

    split: int
    device: str
    commands: Commands
    spans: Spans


class Recording(Recorder):
    """Keeps the host's spans, without gaps from the moment it is made, every launch and copy."""

    measures = True

    def __init__(self) -> None:
        self.inputs: Values = {}
        self._splits: Sequence[LoweredSplit] = ()
        self.host: list[HostSpan] = []
        self._running: list[tuple[int, str, Commands, Callable[[], Spans]]] = []
        self._ran: list[RanSplit] | None = None
        self._moving: list[tuple[int, str, int, Sequence[Event]]] = []
        self.started = self._last = perf_counter_ns()

    def given(self, made: Outline, inputs: Values) -> None:
        self._splits, self.inputs = made.splits, inputs

    def done(self, name: str) -> None:
        now = perf_counter_ns()
        self.host.append(HostSpan(name, self._last, now))
        self._last = now

    def moved(self, split: int, name: str, size: int, events: Sequence[Event]) -> None:
        self._moving.append((split, name, size, events))

    def run(self, split: int, device: str, commands: Commands) -> None:
        self._running.append((split, device, commands, commands.run_recorded()))

    def ran(self) -> list[RanSplit]:
        """Each split's launches, in order; requested when the step has ended."""
        if self._ran is None:
            self._ran = [
                RanSplit(split, device, commands, spans())
                for split, device, commands, spans in self._running
            ]
        return self._ran

    def launches(self) -> list[tuple[int, str, Ran]]:
        """(split, device, what ran) in order of their start; requested when the step has ended."""
        found = [
            (one.split, one.device, Ran(*what, *span))
            for one in self.ran()
            for what, span in zip(one.commands.launched, one.spans.T.tolist(), strict=True)
        ]
        return sorted(found, key=lambda launch: launch[2].start)

    def copies(self) -> list[Copied]:
        """Every copy in order; requested when the step has ended."""
        found = []
        for split, name, size, events in self._moving:
            for event in events:
                event.wait()
            found.append(Copied(split, name, size, tuple(event.span() for event in events)))
        return found

    def splits(self) -> list[SplitRecord]:
        """Times of every split, from events; to be read when the step has ended."""
        copies, computing = self.copies(), dict.fromkeys(range(len(self._splits)), 0)
        for one in self.ran():
            starts, ends = one.spans
            computing[one.split] += int((ends - starts).sum())
        found = []
        for i, part in enumerate(self._splits):
            nodes, device = part.split.nodes, part.split.backend.name
            mine = [copy for copy in copies if copy.split == i]
            copied, copy_ns = sum(c.size for c in mine), sum(c.ns for c in mine)
            named = (nodes[0].name, nodes[-1].name)
            found.append(
                SplitRecord(device, len(nodes), *named, len(mine), copied, copy_ns, computing[i])
            )
        return found
