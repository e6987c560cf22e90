"""One step of a model with what it takes to say how its last token came to be."""

import re
from collections.abc import Callable, Collection, Generator, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from engine.arrays.lens_file import LensFile
from engine.errors import NotSupported
from engine.gguf.dequantize import dequantize
from engine.graph.graph import Graph
from engine.graph.tensor import Tensor
from engine.inside.token.attention import Looking, VisibleCells, attended, lookings
from engine.inside.token.lens import lens
from engine.layers.step import LayerCache
from engine.progress import finished
from engine.protocol import Attended, Lens
from engine.runner.loading import LoadedModel
from engine.runner.stepper import Logits, StartedStep
from engine.scheduler.probes import Probes, ResultKey, named_results

Floats = NDArray[np.float32]
_RESIDUAL = re.compile(r"(?:l_out|l_out_edited|deepstack_out|deepstack_out_edited)-(\d+)")


@dataclass(frozen=True)
class InsideProbes(Probes):
    """Beside what patterns name: what each of the model's `layers` gives, and the queries that
    enter the attention of those that keep keys. Always both, so that one plan serves all.
    """

    layers: tuple[LayerCache | None, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.patterns or self.layers)

    def of(self, graph: Graph) -> Iterator[tuple[ResultKey, Tensor]]:
        """The results, in order. A query that no pattern names has no name: it may be one that this
        graph alone gave it.
        """
        wanted = {node: key for key, node in super().of(graph)}
        named = named_results(graph) if self.layers else ()
        wanted |= {node: key for key, node in named if layer_of(node) is not None}
        for one in lookings(graph, self.layers):
            wanted.setdefault(one.q, ResultKey("", one.layer))
        for node in graph.nodes:
            if node in wanted:
                yield wanted[node], node


def layer_of(node: Tensor) -> int | None:
    """The layer that may leave it, if nothing follows; None where it is no layer's result."""
    found = _RESIDUAL.fullmatch(node.name)
    return int(found[1]) if found else None


@dataclass(frozen=True)
class Glance:
    """Results of a step's last token: `logits` [V], results [E] by layer, queries [H, D] by
    attention. Keys are read from the caches, so it is good until the next step.
    """

    model: LoadedModel
    sequence: int
    position: int
    logits: Logits
    layers: dict[int, Floats]
    queries: list[tuple[Looking, Floats]]

    @classmethod
    def of(
        cls, model: LoadedModel, step: StartedStep, logits: Logits, sequence: int, position: int
    ) -> Self:
        """Read a finished step with `InsideProbes`, whose last token stands at `position`."""
        probed = {one.node: one for one in step.probed()}
        layers: dict[int, Floats] = {}
        last = model.built.n_layer - 1
        for node, one in probed.items():
            layer = layer_of(node)
            if layer is not None and layer != last:
                layers[layer] = one.values.reshape(-1, node.shape[0])[step.real.tokens - 1].copy()
        queries = []
        for looking in lookings(step.plan.outline.graph, model.built.layers):
            if looking.q in probed:
                d, heads = looking.q.shape[:2]
                values = probed[looking.q].values.reshape(-1, heads, d)
                queries.append((looking, values[step.real.tokens - 1].copy()))
        return cls(model, sequence, position, logits, layers, queries)

    def lens(
        self,
        k: int,
        wanted: int,
        shown: Callable[[int], str],
        through: LensFile | None = None,
    ) -> Lens:
        """The logit lens, or another from a file: each layer's prediction. Raises `NotSupported`,
        `BadLogits`, `BadFile`.
        """
        return lens(self.model.stepper, self.layers, self.logits, k, wanted, shown, through)

    def attended(self, rows: Collection[int]) -> Attended:
        """Like `attending`, all at once."""
        return finished(self.attending(rows))

    def attending(self, rows: Collection[int]) -> Generator[int, None, Attended]:
        """Where heads look; all rows of some layers. Yields how many layers are done, of `queries`.

        Raises `NotSupported` where none looks at tokens.
        """
        if self.model.built.model.biased:
            raise NotSupported("showing where heads with a learned bias look")
        if not self.queries:
            raise NotSupported("attention of a model without any")
        return attended(
            self.queries,
            self._keys,
            self._sinks,
            self.model.built.caches.caches,
            self.sequence,
            self.position,
            rows,
        )

    def _keys(self, kept: LayerCache, seen: VisibleCells) -> Floats:
        """[n, K, D] of cells, as they are kept."""
        at = self.model.stepper.planner.placed[kept.k]
        size = kept.k.fmt.row_bytes(kept.k.shape[0])
        n = int(seen.cells.max()) + 1
        data = at.buffer.read(at.offset, n * size).reshape(n, size)[seen.cells]
        return dequantize(data, kept.k.fmt).reshape(len(seen.cells), kept.heads, -1)

    def _sinks(self, weight: Tensor) -> Floats:
        built = self.model.built
        return self.model.file.array(built.sources[weight])
