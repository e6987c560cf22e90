"""A graph as it would run, described from its outline: nothing is computed or allocated."""

import re
from collections import Counter
from collections.abc import Callable

import numpy as np

from engine.errors import BadSetting
from engine.graph.graph import Graph, is_numbered
from engine.graph.op import VIEW_OPS, Op
from engine.graph.tensor import Role, Tensor
from engine.graph.work import Values, work_of
from engine.inside.reasons import Reasons
from engine.kvcache.causal import CausalCache
from engine.kvcache.states import StatePart, StateStep
from engine.layers.step import Step
from engine.memory.placement import Placement
from engine.models.build import BuiltModel, StepShape
from engine.protocol import (
    ArenaLife,
    ArenaMap,
    CopyNode,
    DescribeGraph,
    GraphDone,
    GraphNode,
    LaunchNode,
    SplitNode,
)
from engine.runner.batch import MAX_BATCH, bucket_of
from engine.scheduler.lifetimes import timeline
from engine.scheduler.outline import Outline
from engine.scheduler.places import sources
from engine.scheduler.split import Split

# A layer's number in the name that a model gave: Qcur-3, l_out-3 (reshaped).
_LAYER = re.compile(r"-(\d+)(?: \(|$)")


def describe_graph(
    request: DescribeGraph,
    built: BuiltModel,
    placement: Placement,
    outline: Callable[[Graph], Outline],
    fused_attention: bool,
) -> GraphDone:
    """Describe a step of that size, with the outline from `outline`. Raises `BadSetting`."""
    if not 1 <= request.n_tokens <= MAX_BATCH:
        raise BadSetting("n_tokens", request.n_tokens, f"1 to a batch of {MAX_BATCH}")
    n_tokens = min(request.n_tokens, built.n_ctx)
    n_cells = n_tokens if request.n_cells is None else request.n_cells
    if not n_tokens <= n_cells <= built.n_ctx:
        expected = f"{n_tokens} to the {built.n_ctx} tokens of the context"
        raise BadSetting("n_cells", n_cells, expected)
    cells = built.buckets([n_cells] * len(built.caches.caches))
    p, graph = built.build(StepShape(bucket_of(n_tokens), 1, cells), fused_attention)
    inputs = p.fill(_step(built, n_tokens, n_cells))
    made = outline(graph)
    return _Description(built, placement, made, inputs).reply(request.id, n_tokens, n_cells)


def _step(built: BuiltModel, n_tokens: int, n_cells: int) -> Step:
    """The last tokens of a context of so many, padded as a plan wants them."""
    more = bucket_of(n_tokens) - n_tokens
    positions = np.arange(n_cells - n_tokens, n_cells, dtype=np.int32)
    empty = [
        CausalCache(c.n_cells, c.window, c.chunk, c.movable, c.ahead) for c in built.caches.caches
    ]
    steps = tuple(cache.start(positions, 0).padded(n_tokens + more) for cache in empty)
    outputs = np.array([n_tokens - 1], np.int32)
    tokens = np.zeros(n_tokens + more, np.int32)
    states = [StateStep(0, 1, StatePart(0, n_cells - n_tokens, n_tokens))]
    return Step(tokens, np.pad(positions, (0, more)), outputs, steps, states=states)


class _Description:
    """One outline, its tensors numbered: nodes in order, then leaves."""

    def __init__(
        self, built: BuiltModel, placement: Placement, made: Outline, inputs: Values
    ) -> None:
        self._built, self._made, self._inputs = built, made, inputs
        self._tensors = (*made.graph.nodes, *made.graph.leaves)
        self._number = {tensor: i for i, tensor in enumerate(self._tensors)}
        self._layers = _layers(built, made.graph)
        self._reasons = Reasons(made, placement, self._layers)
        self._split_of = {
            node: i for i, part in enumerate(made.splits) for node in part.split.nodes
        }
        self._lives: dict[tuple[str, Tensor], int] = {}
        self._arenas = self._all_arenas()
        self._launch_of: dict[Tensor, int] = {}
        self._launches = self._all_launches()

    def reply(self, id: int, n_tokens: int, n_cells: int) -> GraphDone:
        names: Counter[str] = Counter()
        nodes = []
        for tensor in self._tensors:
            nodes.append(self._node(tensor, names[tensor.name]))
            names[tensor.name] += 1
        return GraphDone(
            id,
            n_tokens=n_tokens,
            n_cells=n_cells,
            n_layer=self._built.n_layer,
            nodes=nodes,
            splits=[self._split(i, part.split) for i, part in enumerate(self._made.splits)],
            launches=self._launches,
            arenas=self._arenas,
            steps=len(self._made.steps) + 1,
        )

    def _node(self, tensor: Tensor, occurrence: int) -> GraphNode:
        device, cause = self._reasons.cause(tensor)
        is_view = tensor.op in VIEW_OPS
        life = -1 if is_view else self._lives.get((device, tensor.storage), -1)
        return GraphNode(
            name=tensor.name,
            occurrence=occurrence,
            op=str(tensor.op),
            dtype=tensor.fmt.name,
            dims=list(tensor.dims),
            size=tensor.nelements // tensor.fmt.block * tensor.fmt.bytes,
            role="view" if is_view else str(tensor.role),
            layer=self._layers[tensor],
            device=device,
            cause=cause,
            why=self._reasons.why(tensor),
            sources=[self._number[source] for _, source in sources(tensor)],
            split=self._split_of.get(tensor, -1),
            launch=self._launch_of.get(tensor, -1),
            life=life,
        )

    def _split(self, number: int, part: Split) -> SplitNode:
        copies = []
        for copy in part.copies:
            reader = next(
                node
                for node in part.nodes
                if any(source.storage is copy.source for _, source in sources(node))
            )
            origin = None if copy.origin is None else copy.origin.name
            numbers = self._number[copy.source], self._number[reader]
            size = copy.source.nbytes
            copies.append(CopyNode(copy.name, numbers[0], origin, size, copy.made, numbers[1]))
        names = part.nodes[0].name, part.nodes[-1].name
        why = self._reasons.cut(number)
        return SplitNode(part.backend.name, len(part.nodes), *names, why, copies)

    def _all_launches(self) -> list[LaunchNode]:
        """One for each lowered node; of the last that has a node the result is."""
        made, steps = self._made, {node: i for i, node in enumerate(self._made.steps)}
        launches: list[LaunchNode] = []
        wrote: dict[tuple[str, Tensor], int] = {}
        for number, part in enumerate(made.splits):
            backend = part.split.backend
            types = made.places.types_on(backend)
            for node in part.nodes:
                if node.op is Op.RESULT:  # the launch before it writes that, too
                    wrote[backend.name, node.storage] = len(launches) - 1
                    continue
                calls, work = backend.calls(node, types), work_of(node, self._inputs)
                read = {
                    wrote[key]
                    for _, source in sources(node)
                    if source.op is not Op.RESULT
                    for key in [(backend.name, source.storage)]
                    if key in wrote
                }
                nodes = part.computes[node]
                self._launch_of.update((own, len(launches)) for own in nodes)
                wrote[backend.name, node.storage] = len(launches)
                launches.append(
                    LaunchNode(
                        split=number,
                        device=backend.name,
                        op=str(node.op),
                        name=node.name,
                        kernels=[call.kernel for call in calls],
                        defines=[call.defines for call in calls],
                        nodes=[self._number[own] for own in nodes],
                        sources=sorted(read),
                        bytes=work.bytes,
                        flops=work.flops,
                        step=steps[node],
                    )
                )
        return launches

    def _all_arenas(self) -> list[ArenaMap]:
        made = self._made
        line = timeline(made.graph, made.splits, made.places)
        found = []
        for backend in made.places.backends:
            layout, name = made.layouts[backend.name], backend.name
            lives: list[ArenaLife] = []
            for life in line.lifetimes[name]:
                for i, storage in enumerate(life.storages):
                    ends = (*life.births[1:], life.last + 1)
                    place = layout.places[storage]
                    number = self._number.get(storage, -1)
                    self._lives[name, storage] = len(lives)
                    span = life.births[i], ends[i] - 1
                    lives.append(ArenaLife(storage.name, number, *place, life.size, *span))
            if layout.chunks:
                found.append(ArenaMap(name, list(layout.chunks), layout.reserved, lives))
        return found


def _layers(built: BuiltModel, graph: Graph) -> dict[Tensor, int | None]:
    """The layer of every leaf and node: by its name, else by what it reads."""
    found: dict[Tensor, int | None] = dict.fromkeys(graph.leaves)
    found |= {tensor: owner.layer for tensor, owner in built.owners.items() if tensor in found}
    for i in range(built.n_layer):
        found |= {leaf: i for leaf, _ in built.kept_by(i) if leaf in found}
    for node in graph.nodes:
        named = None if is_numbered(node.name) else _LAYER.search(node.name)
        if named is not None:
            found[node] = int(named[1])
            continue
        read = [
            found[source] for _, source in sources(node) if source.storage.role is not Role.INPUT
        ]
        placed = [found[s] for _, s in sources(node) if s.storage.role in (Role.WEIGHT, Role.CACHE)]
        known = [layer for layer in (*placed, *read) if layer is not None]
        found[node] = max(known, default=None)
    return found
