"""How long opening a model takes and what it adds to memory, beside llama.cpp: A B A B, each time
in a process of its own that ends before the next one starts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any

import psutil

from app.bench.against import PeerProcess
from engine.gguf import open_gguf
from engine.protocol import Failed, HeldMemory, Load, LoadCost, Loaded, Prepare, Unload
from engine.settings import EngineOptions
from engine.worker import RemoteError, Worker

MAPPED = "mapped"


@dataclass(frozen=True)
class TimedLoad:
    """Nanoseconds from the request to a model that answers, and the bytes that the process grew by;
    `parts` is what it holds then, by component. `prepared` bytes of that were not packed but mapped
    from a file of prepared weights. `cost` shows what the time went to.
    """

    ns: int
    grown: int
    parts: Mapping[str, int] = field(default_factory=dict)
    prepared: int = 0
    cost: LoadCost | None = None


@dataclass(frozen=True)
class LoadComparison:
    """Loads of a file of `size` bytes in turn; no `theirs` where nobody is compared with. `problem`
    shows why weights could not be prepared.
    """

    size: int
    ours: Sequence[TimedLoad]
    theirs: Sequence[TimedLoad]
    problem: str = ""

    def as_json(self) -> dict[str, Any]:
        """Medians, the ratio of them (above 1 we are faster), and all runs."""
        last = self.ours[-1]
        found: dict[str, Any] = {
            "file_size": self.size,
            "median_ns": round(median(one.ns for one in self.ours)),
            "samples_ns": [one.ns for one in self.ours],
            "s_per_gb": median(one.ns for one in self.ours) / self.size,
            "grown": last.grown,
            "memory": dict(last.parts),
            "prepared": [one.prepared for one in self.ours],
            "problem": self.problem,
            "costs": [_cost(one) for one in self.ours],
        }
        if self.theirs:
            theirs = median(one.ns for one in self.theirs)
            found |= {
                "theirs_median_ns": round(theirs),
                "theirs_ns": [one.ns for one in self.theirs],
                "theirs_grown": self.theirs[-1].grown,
                "ratio": theirs / found["median_ns"],
                "ratios": [b.ns / a.ns for a, b in zip(self.ours, self.theirs, strict=True)],
            }
        return found


def compare_loads(
    path: Path, options: EngineOptions, repetitions: int, against: bool
) -> tuple[Loaded, LoadComparison]:
    """Both in turn. What is loaded first once, untimed, brings the file into memory and makes what
    is kept on the disk: built kernels, and the weights if these are to be kept prepared. Raises
    RemoteError, WorkerDied, MissingPackage, PeerFailed.
    """
    with Worker() as worker:
        loaded = worker.get(Load(worker.new_id(), str(path), options))
        problem = worker.get(Prepare(worker.new_id())).problem
    ours, theirs = [], []
    for _ in range(repetitions):
        ours.append(timed_load(path, options)[1])
        if against:
            with PeerProcess(path, loaded.n_ctx) as peer:
                theirs.append(TimedLoad(peer.about["ns"], peer.about["grown"]))
    with open_gguf(path) as file:
        return loaded, LoadComparison(file.size, ours, theirs, problem)


def timed_load(path: Path, options: EngineOptions) -> tuple[Loaded, TimedLoad]:
    """A load in a fresh process. Raises RemoteError, WorkerDied."""
    with Worker() as worker:
        worker.get(Unload(worker.new_id()))  # it has started once it answers
        process = psutil.Process(worker.pid)
        before, start = process.memory_info().rss, perf_counter_ns()
        worker.send(Load(worker.new_id(), str(path), options))
        held: HeldMemory | None = None
        while True:
            reply = worker.receive()
            if isinstance(reply, Failed):
                raise RemoteError(reply)
            if isinstance(reply, HeldMemory):
                held = reply
            if isinstance(reply, Loaded):
                taken = perf_counter_ns() - start
                grown = process.memory_info().rss - before
                return reply, TimedLoad(taken, grown, _parts(held), reply.prepared, reply.cost)


def _cost(load: TimedLoad) -> dict[str, Any]:
    """Return the cost of a load, without what nobody counted."""
    if load.cost is None:
        return {}
    parts, used = load.cost.seconds, load.cost.used
    rest = load.ns / 1e9 - sum(parts.values())
    return {"seconds": {**parts, "other": rest}, **(used._asdict() if used is not None else {})}


def _parts(held: HeldMemory | None) -> dict[str, int]:
    """Bytes by component; those that stay in the file are `mapped`."""
    parts: dict[str, int] = {}
    for row in held.rows if held is not None else ():
        name = MAPPED if row.status == MAPPED else row.component
        parts[name] = parts.get(name, 0) + row.size
    return parts
