"""The memory of an open model, and what fills it."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from itertools import chain
from typing import Self

from engine.device.backend import Location
from engine.errors import Cancelled, NoMem
from engine.graph.tensor import Tensor
from engine.progress import part
from engine.protocol import StageName
from engine.runner.pictures.beside import Opened
from engine.runner.placing.dry_run import DryRun
from engine.runner.placing.shelf import WeightShelf, contents
from engine.runner.records import records
from engine.runner.stepper import Stepper
from engine.scheduler.plan import KEPT, Planner
from engine.settings import EngineOptions
from engine.weights.load import Allocation, allocate, free
from engine.weights.load import fill as fill_weights
from engine.weights.prepared.use import PreparedWeights

SERVING = 24
"""Plans that are kept where steps are of 1 to 30 sequences or have drafts, beside pieces of
prompts.
"""

StageProgress = Callable[[StageName, int, int], None]


def fill(
    opened: Opened,
    dry: DryRun,
    room: "Room",
    progress: StageProgress,
    cancelled: Callable[[], bool],
) -> None:
    """Fill the weights of both files that were not taken over, or bring in those that were
    prepared. Raises `Cancelled`.
    """
    sources, filled = opened.built.sources, room.filled | room.was_prepared
    weights = {t: at for t, at in room.placed.items() if t in sources and t not in filled}
    done, total = 0, sum(t.nbytes for t in weights) + room.prepared.size
    progress("load", done, total)
    with part("reading"), closing(fill_weights(weights, dry.backend_of, opened.stored)) as steps:
        for size in chain(room.prepared.read_in(), steps):
            done += size
            progress("load", done, total)
            if cancelled():
                raise Cancelled("loading")


class Room:
    """The memory of one model: everything that a dry run foresees, or nothing.

    `placed` shows where weights and caches lie, `filled` which weights were taken over, `mapped`
    where weights are in the file. `was_prepared` are those that lie in a file of prepared ones.
    """

    def __init__(
        self,
        opened: Opened,
        options: EngineOptions,
        placing: Callable[[DryRun], None] = lambda dry: None,
        shelf: WeightShelf | None = None,
        prepared: PreparedWeights | None = None,
    ) -> None:
        """Weights of the same file that lie on the shelf as a dry run wants them are taken over,
        all others there are freed. What was `prepared` is mapped.
        """
        self._opened, self._placing = opened, placing
        self.prepared = prepared or PreparedWeights(None)
        self._shelf = shelf or WeightShelf()
        self._fused = options.flash_attention is not False
        self._drafts = options.spec_type != "none" or bool(options.model_draft)
        self._scales = tuple(options.lora.values())
        self._stack = ExitStack()
        self.placed: dict[Tensor, Location] = {}
        self.filled: set[Tensor] = set()
        self.was_prepared: set[Tensor] = set()
        self.mapped: dict[Tensor, Location] = {}

    def take(self, dry: DryRun) -> NoMem | None:
        """Free what was held, allocate weights, caches and arenas. Returns the refusal, if any."""
        self._stack.close()
        self._placing(dry)
        try:
            self.placed, self.filled, self.was_prepared = {}, set(), set()
            self._stack.callback(lambda: free(self.placed.values()))
            self._take_over(dry)
            self._take_prepared(dry)
            allocate(self._missing((*dry.weights, *dry.caches)), self.placed)
            host = dry.backends[-1]
            self.mapped = {t: host.map(self._opened.data(t)) for t in dry.built.sources}
            planner = self.planner(dry, self.placed)
            self.stepper = Stepper(dry.built, planner, self._fused, scales=self._scales)
            self._stack.callback(lambda: self.stepper.planner.close())
            planner.take((w.backend, w.size, w.owner) for w in dry.arenas)
        except NoMem as refused:
            if refused.memory is None:
                refused.memory = records(dry, refused)
            self._stack.close()
            return refused
        return None

    def _take_over(self, dry: DryRun) -> None:
        wanted = {contents(one, self._opened.stored): one for one in dry.weights}
        self._shelf.keep(wanted)
        for key, one in wanted.items():
            self.filled.update(self._shelf.give(key, one, self.placed))
        self._shelf.close()

    def _take_prepared(self, dry: DryRun) -> None:
        self.prepared.put_back()
        for one in self._missing(dry.weights):
            buffer = self.prepared.hold(one, self._opened.stored)
            if buffer is not None:
                self.placed.update(one.locations(buffer))
                self.was_prepared.update(tensor for tensor, _ in one.tensors)

    def _missing(self, wanted: Iterable[Allocation]) -> list[Allocation]:
        return [one for one in wanted if one.tensors[0][0] not in self.placed]

    def shelve(self, dry: DryRun) -> WeightShelf:
        """The weights of this model for the next one; they are no longer freed with the room."""
        buffers = {
            contents(one, self._opened.stored): self.placed[one.tensors[0][0]].buffer
            for one in dry.weights
        }
        shelf, kept = WeightShelf(buffers), {id(buffer) for buffer in buffers.values()}
        self.placed = {t: at for t, at in self.placed.items() if id(at.buffer) not in kept}
        return shelf

    def planner(self, dry: DryRun, placed: Mapping[Tensor, Location]) -> Planner:
        """Without arenas yet, for what lies so."""
        homes = {**placed, **{t: self.mapped[t] for t, _ in dry.mapped}}
        kept = SERVING if dry.built.n_sequences > 1 or self._drafts else KEPT
        return Planner(dry.backends, homes, kept, mapped=self.mapped, pins=dry.pins)

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
