"""What happens while a plan runs, kept for those who ask for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from engine.backends.base import Commands, Ran
from engine.graph.tensor import Tensor

Values = Mapping[Tensor, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class HostSpan:
    """Work of the host, from `start` to `end` in time.perf_counter_ns()."""

    name: str
    start: int
    end: int


class Recorder:
    """Records nothing: how every step runs unless somebody measures it."""

    def given(self, inputs: Values) -> None:
        """A step begins with these inputs."""

    def done(self, name: str) -> None:
        """The host has finished what it has done since the last such call."""

    def run(self, split: int, device: str, commands: Commands) -> None:
        """Run the commands of a split on a device."""
        commands.run()


UNRECORDED = Recorder()


class Recording(Recorder):
    """Keeps the host's spans, without gaps from the moment it is made, and every launch."""

    def __init__(self) -> None:
        self.inputs: Values = {}
        self.host: list[HostSpan] = []
        self._running: list[tuple[int, str, Callable[[], list[Ran]]]] = []
        self.started = self._last = perf_counter_ns()

    def given(self, inputs: Values) -> None:
        self.inputs = inputs

    def done(self, name: str) -> None:
        now = perf_counter_ns()
        self.host.append(HostSpan(name, self._last, now))
        self._last = now

    def run(self, split: int, device: str, commands: Commands) -> None:
        self._running.append((split, device, commands.run_recorded()))

    def launches(self) -> list[tuple[int, str, Ran]]:
        """(split, device, what ran) in order of their start; asked for when the step has ended."""
        ran = [(i, device, one) for i, device, all_of in self._running for one in all_of()]
        return sorted(ran, key=lambda launch: launch[2].start)
