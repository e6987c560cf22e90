"""Graphs of a model that the dry runs of all its placements share."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

from engine.graph.graph import Graph
from engine.graph.tensor import Tensor
from engine.models.build import BuiltModel, HiddenRows, StepShape
from engine.models.kept import CELL_STEP, pictures_of
from engine.runner.batch import bucket_of
from engine.runner.stepper import shift_of, with_rope
from engine.scheduler.outline import Lowerings
from engine.settings import EngineOptions
from engine.weights.load import matmul_only


@dataclass(frozen=True)
class ModelGraphs:
    """Made when requested, and then kept. `fused` is whether attention is one operation."""

    built: BuiltModel
    fused: bool = True

    @classmethod
    def of(cls, built: BuiltModel, options: EngineOptions) -> Self:
        """Make the graphs for the options' kind of attention."""
        return cls(built, options.flash_attention is not False)

    @cached_property
    def lowerings(self) -> Lowerings:
        """Lowered graphs of the previous backends."""
        return Lowerings()

    @cached_property
    def one_token(self) -> Graph:
        """A decode step with an empty cache."""
        if self.fused:
            return self.built.one_token
        return self.built.build(self.built.next_token, self.fused)[1]

    @property
    def _adapted(self) -> Graph:
        """A decode step with all adapters."""
        cells = self.built.buckets([0] * len(self.built.caches.caches))
        shape = StepShape(1, 1, cells, adapters=self.built.all_adapters)
        return self.built.build(shape, self.fused)[1]

    @cached_property
    def worst(self) -> tuple[Graph, ...]:
        """The graphs with the highest memory use; a full batch over whole caches is the first."""
        return tuple(worst_cases(self.built, self.fused))

    @cached_property
    def tiled(self) -> frozenset[Tensor]:
        """Weights that may have a layout which only matrix products read."""
        found = matmul_only(self._adapted if self.built.adapters else self.one_token)
        predicting = self.built.predicting
        if predicting is not None:
            cells = predicting.buckets([0] * len(predicting.caches.caches))
            found |= matmul_only(predicting.build(StepShape(1, 1, cells, hidden="wanted"))[1])
        if self.built.model.encoder is not None:
            read = self.built.next_token._replace(encoded=(1, CELL_STEP))
            found |= matmul_only(self.built.build_encoder(1)[1])
            found |= matmul_only(self.built.build(read, self.fused)[1])
        tower = self.built.tower
        if tower is not None:
            found |= matmul_only(tower.build(tower.tower.bucket(1))[1])
        return found


def worst_cases(built: BuiltModel, fused_attention: bool = True) -> list[Graph]:
    """Return the graphs with the highest memory use in a chat: a full batch over whole caches
    first, the shift of each cache, and the largest picture for vision models.
    """
    cells = tuple(c.n_cells for c in built.caches.caches)
    most = bucket_of(built.n_batch)
    several = bucket_of(built.n_sequences)
    n_outputs = most if built.model.whole else several
    parts = several if built.caches.states.n_slots else 1
    hidden: HiddenRows = "all" if built.predicting is not None else ""
    shape = StepShape(most, n_outputs, cells, hidden=hidden, adapters=built.all_adapters)
    _, batch = built.build(shape._replace(parts=parts), fused_attention)
    graphs = [batch, *(shift_of(built, cache).graph for cache in with_rope(built))]
    if built.caches.encoded is not None:
        n_cells = built.caches.encoded.n_cells
        seen = (n_cells // pictures_of(built.n_sequences), n_cells)
        if built.model.encoder is not None:
            seen = (bucket_of(built.n_ctx), n_cells)
            graphs.append(built.build_encoder(bucket_of(built.n_ctx))[1])
        graphs.append(built.build(shape._replace(encoded=seen), fused_attention)[1])
    if built.predicting is not None:
        cells = tuple(c.n_cells for c in built.predicting.caches.caches)
        read = StepShape(most, 1, cells, hidden="wanted")
        graphs.append(built.predicting.build(read, fused_attention)[1])
    if built.tower is not None:
        shown = shape._replace(planes=built.planes, hidden="")
        _, pictured = built.build(shown, fused_attention)
        _, tower = built.tower.build(built.tower.tower.worst(built.limits))
        graphs += [pictured, tower]
    return graphs
