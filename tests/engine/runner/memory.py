"""Models placed without being filled: what is foreseen beside what the pools then hold."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from pathlib import Path

import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.errors import NoMem
from engine.memory.pools import MeasuredPool
from engine.runner.batch import MAX_BATCH
from engine.runner.devices import open_devices
from engine.runner.loading import cache_format
from engine.runner.pictures.beside import open_model
from engine.runner.placing.dry_run import DryRun
from engine.runner.placing.graphs import ModelGraphs, worst_cases
from engine.runner.placing.placement import DecidedPlacement, place
from engine.runner.placing.room import Room
from engine.runner.records import pools_of
from engine.runner.stepper import Stepper
from engine.settings import EngineOptions

Sizes = dict[tuple[str, str, int | None], int]


def drivers() -> list[str]:
    """The first device of every driver."""
    first: dict[str, str] = {}
    for info in list_devices():
        first.setdefault(info.platform, info.name)
    return list(first.values())


def two_devices() -> tuple[str, str]:
    """Devices of two drivers; skips where there is one."""
    names = drivers()
    if len(names) < 2:
        pytest.skip("needs two OpenCL drivers")
    return names[0], names[1]


@contextmanager
def allocated(path: Path, options: EngineOptions) -> Iterator[DecidedPlacement]:
    """A model with all of its memory allocated, but nothing loaded into it."""
    with roomed(path, options) as (placed, _):
        yield placed


@contextmanager
def roomed(path: Path, options: EngineOptions) -> Iterator[tuple[DecidedPlacement, Room]]:
    """As `allocated`, with what holds the memory."""
    with ExitStack() as stack:
        opened = open_model(path, options, MAX_BATCH, cache_format(options), stack)
        built = opened.built
        devices = open_devices(options, stack)
        room = stack.enter_context(Room(opened, options))
        placed = place(ModelGraphs.of(built, options), devices, options, room.take)
        if placed.failure is None:
            assert [w.size for w in placed.dry.arenas] == chunks(room.stepper)
        yield placed, room


def chunks(stepper: Stepper) -> list[int]:
    """What plans on the buffers that are really there need at most, in arenas and staging."""
    worst = worst_cases(stepper.built, stepper.fused_attention)
    made = [stepper.planner.outline(graph) for graph in worst]
    arenas = [[one.layouts[b.name] for one in made] for b in stepper.planner.backends]
    return [
        max(sizes)
        for layouts in (*arenas, [one.staging for one in made])
        for sizes in zip_longest(*(layout.chunks for layout in layouts), fillvalue=0)
    ]


def foreseen(dry: DryRun) -> Sizes:
    """What the dry run says will be allocated."""
    rows = dry.memory().rows()
    return {(r.device, r.component, r.layer): r.size for r in rows if r.status == "planned"}


def held(dry: DryRun) -> Sizes:
    """What the pools say is allocated."""
    found: Counter[tuple[str, str, int | None]] = Counter()
    for pool in pools_of(dry.backends):
        for (device, owner), size in pool.taken.items():
            found[device, owner.component, owner.layer] += size
    return dict(found)


class Refusals:
    """Makes the n-th allocation in any pool find no room, and counts them. From 1."""

    def __init__(self, patch: pytest.MonkeyPatch, nth: int = 0) -> None:
        self.count, self.nth = 0, nth
        self.refused: tuple[str, str, int | None] | None = None
        self.taken = 0
        """Entries of the records that had some of what was not refused, counted again and again."""
        real = MeasuredPool.take

        def take(pool: MeasuredPool, device: str, owner: object, size: int) -> None:
            self.count += 1
            limit = pool.limit
            if self.count == self.nth:
                self.refused = (device, owner.component, owner.layer)  # type: ignore[attr-defined]
                pool.limit = pool.used
            try:
                real(pool, device, owner, size)  # type: ignore[arg-type]
                self.taken += len(list(owner.parts(size)))  # type: ignore[attr-defined]
            finally:
                pool.limit = limit

        patch.setattr(MeasuredPool, "take", take)


def check_every_refusal(path: Path, options: EngineOptions, patch: pytest.MonkeyPatch) -> int:
    """Refuse each allocation of a load in turn: it is named, and nothing stays. How many."""
    with patch.context() as context:
        every = Refusals(context)
        with allocated(path, options) as placed:
            assert placed.failure is None
            pools = pools_of(placed.dry.backends)
    assert not any(pool.taken for pool in pools)
    for nth in range(1, every.count + 1):
        with patch.context() as context:
            refusals = Refusals(context, nth)
            with allocated(path, options) as placed:
                failure = placed.failure
                assert isinstance(failure, NoMem)
                assert not any(pool.taken for pool in pools), nth
        assert (failure.device, failure.component, failure.layer) == refusals.refused
        rows = failure.memory.rows()  # type: ignore[union-attr]
        failed = [(r.device, r.component, r.layer) for r in rows if r.status == "failed"]
        assert failed == [refusals.refused]
        done = sum(r.status == "allocated" for r in rows)
        assert done <= refusals.taken
        assert done >= (nth - 1) // 6  # an entry has several buffers
    return every.count
