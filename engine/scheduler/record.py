"""What happens while a plan runs, kept for those who ask for it."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns

from engine.backends.base import Commands, Ran


@dataclass(frozen=True, slots=True)
class HostSpan:
    """Work of the host, from `start` to `end` in time.perf_counter_ns()."""

    name: str
    start: int
    end: int


class Recorder:
    """Records nothing: how every step runs unless somebody measures it."""

    def done(self, name: str) -> None:
        """The host has finished what it has done since the last such call."""

    def run(self, split: int, commands: Commands) -> None:
        """Run a split's commands."""
        commands.run()


UNRECORDED = Recorder()


class Recording(Recorder):
    """Keeps the host's spans, without gaps from the moment it is made, and every launch."""

    def __init__(self) -> None:
        self.host: list[HostSpan] = []
        self._running: list[tuple[int, Callable[[], list[Ran]]]] = []
        self.started = self._last = perf_counter_ns()

    def done(self, name: str) -> None:
        now = perf_counter_ns()
        self.host.append(HostSpan(name, self._last, now))
        self._last = now

    def run(self, split: int, commands: Commands) -> None:
        self._running.append((split, commands.run_recorded()))

    def launches(self) -> list[tuple[int, Ran]]:
        """(split, what ran) in order of their start; asked for when the step has ended."""
        ran = [(split, one) for split, all_of in self._running for one in all_of()]
        return sorted(ran, key=lambda pair: pair[1].start)
