"""The search: every combination in turn against the best so far, both running by turns."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter

from engine.backends.opencl.backend import OpenCLBackend, open_together
from engine.backends.opencl.drivers.device import Device
from engine.backends.opencl.tuned import Tuned
from engine.device.backend import Commands
from engine.graph.graph import Graph
from engine.graph.op import VIEW_OPS
from engine.graph.work import work_of
from engine.selftest.guarded import prepared
from engine.selftest.operands import Operands
from engine.tuner.families import TuningFamily

WORTH = 1.02
"""What is not faster by so much may be so by chance."""

SECONDS, LEAST_ROUNDS = 0.6, 5


@dataclass(frozen=True)
class Trial:
    """Numbers, their speed in the family's unit, and that over the speed of what they met."""

    tuned: Tuned
    speed: float
    gain: float

    @property
    def better(self) -> bool:
        return self.gain >= WORTH


class Contest:
    """A family's work on a device. Its methods raise what the device raises."""

    def __init__(self, device: Device, family: TuningFamily) -> None:
        self.device, self.family = device, family
        self.operands = Operands()
        self.nodes = family.make(self.operands)
        made = [t for t in Graph.of(self.nodes).nodes if t.op not in VIEW_OPS]
        work = [work_of(t, self.operands.values) for t in made]
        self.amount = sum(w.bytes if family.unit == "GB/s" else w.flops for w in work)

    def search(self, base: Tuned) -> Iterator[Trial]:
        """A trial for every combination; `base` is the first that is to be beaten."""
        left = list(self.family.combinations(base, self.device.info.traits))
        best = base
        while left:
            with self._ready(best) as champion:
                while left:
                    trial = self._meet(champion, left.pop(0))
                    yield trial
                    if trial.better:
                        best = trial.tuned
                        break

    def compare(self, base: Tuned, tuned: Tuned) -> Trial:
        """The gain of `tuned`, measured anew: the best of many trials is partly chance."""
        with self._ready(base) as champion:
            return self._meet(champion, tuned)

    def _meet(self, champion: "Runner", tuned: Tuned) -> Trial:
        with self._ready(tuned) as challenger:
            before, now = alternate(champion, challenger)
        gain = median(a / b for a, b in zip(before, now, strict=True))
        return Trial(tuned, self.amount / median(now) / 1e9, gain)

    @contextmanager
    def _ready(self, tuned: Tuned) -> Iterator["Runner"]:
        info = self.device.info
        info = replace(info, traits=replace(info.traits, tuned=tuned))
        (backend,) = open_together([Device(info, self.device.handle)])
        values = self.operands.values
        with prepared(backend, self.nodes, values, matmul_only=True, fused=True) as ready:
            runner = Runner(backend, ready.commands)
            runner.seconds()
            yield runner
        backend.close()


@dataclass(frozen=True)
class Runner:
    backend: OpenCLBackend
    commands: Commands

    def seconds(self) -> float:
        """Seconds of one run, from an idle device to an idle device."""
        start = perf_counter()
        self.commands.run()
        self.backend.synchronize()
        return perf_counter() - start


def alternate(first: Runner, second: Runner) -> tuple[list[float], list[float]]:
    """Seconds of runs by turns."""
    times: tuple[list[float], list[float]] = ([], [])
    end = perf_counter() + SECONDS
    while perf_counter() < end or len(times[0]) < LEAST_ROUNDS:
        for runner, found in zip((first, second), times, strict=True):
            found.append(runner.seconds())
    return times
