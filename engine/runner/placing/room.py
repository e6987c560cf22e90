"""The memory of an open model, and what fills it."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from typing import Self

from engine.backends.base import Location
from engine.errors import Cancelled, NoMem
from engine.graph.tensor import Tensor
from engine.protocol import StageName
from engine.runner.pictures.beside import Opened
from engine.runner.placing.dry_run import DryRun
from engine.runner.records import records
from engine.runner.stepper import Stepper
from engine.scheduler.plan import Planner
from engine.settings import EngineOptions
from engine.weights.load import allocate, free
from engine.weights.load import fill as fill_weights

StageProgress = Callable[[StageName, int, int], None]


def fill(
    opened: Opened,
    dry: DryRun,
    placed: Mapping[Tensor, Location],
    progress: StageProgress,
    cancelled: Callable[[], bool],
) -> None:
    """Fill the weights of both files, with one progress. Raises `Cancelled`."""
    weights = {t: at for t, at in placed.items() if t in opened.built.sources}
    done, total = 0, sum(t.nbytes for t in weights)
    progress("load", done, total)
    with closing(fill_weights(weights, dry.backend_of, opened.stored)) as steps:
        for size in steps:
            done += size
            progress("load", done, total)
            if cancelled():
                raise Cancelled("loading")


class Room:
    """The memory of one model: everything that a dry run foresees, or nothing.

    `placed` tells where weights and caches lie, `mapped` where weights are in the file.
    """

    def __init__(
        self,
        opened: Opened,
        options: EngineOptions,
        placing: Callable[[DryRun], None] = lambda dry: None,
    ) -> None:
        self._opened, self._placing = opened, placing
        self._fused = options.flash_attention is not False
        self._stack = ExitStack()
        self.placed: dict[Tensor, Location] = {}
        self.mapped: dict[Tensor, Location] = {}

    def take(self, dry: DryRun) -> NoMem | None:
        """Free what was held, allocate weights, caches and arenas. Returns the refusal, if any."""
        self._stack.close()
        self._placing(dry)
        try:
            self.placed = {}
            self._stack.callback(lambda: free(self.placed.values()))
            allocate((*dry.weights, *dry.caches), self.placed)
            host = dry.backends[-1]
            self.mapped = {t: host.map(self._opened.data(t)) for t in dry.built.sources}
            planner = self.planner(dry, self.placed)
            self.stepper = Stepper(dry.built, planner, self._fused)
            self._stack.callback(lambda: self.stepper.planner.close())
            planner.take((w.backend, w.size, w.owner) for w in dry.arenas)
        except NoMem as refused:
            if refused.memory is None:
                refused.memory = records(dry, refused)
            self._stack.close()
            return refused
        return None

    def planner(self, dry: DryRun, placed: Mapping[Tensor, Location]) -> Planner:
        """Without arenas yet, for what lies so."""
        homes = {**placed, **{t: self.mapped[t] for t, _ in dry.mapped}}
        return Planner(dry.backends, homes, mapped=self.mapped, pins=dry.pins)

    def settle(self, placed: dict[Tensor, Location], planner: Planner) -> None:
        """Hold these from now on, and free what else was held."""
        before, chunks = self.placed, self.stepper.planner
        self.placed, self.stepper.planner = placed, planner
        kept = {id(at.buffer) for at in placed.values()}
        free(at for at in before.values() if id(at.buffer) not in kept)
        chunks.close(keep=planner.chunks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
