"""The graph in blocks: what comes before the first layer, the layers, and the output block."""

import re
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from app.language import tr
from engine.protocol import GraphDone, GraphNode

NUMBERED = re.compile(r"node_\d+")


@dataclass(frozen=True)
class GraphBlock:
    """The nodes and launches of one layer, by their numbers; `layer` is None for what comes before
    the first, the output block's is the number of layers.
    """

    layer: int | None
    title: str
    nodes: tuple[int, ...]
    launches: tuple[int, ...]


class GraphIndex:
    """A graph with what is looked up in it again and again."""

    def __init__(self, graph: GraphDone) -> None:
        self.graph = graph

    @cached_property
    def blocks(self) -> tuple[GraphBlock, ...]:
        """In the order in which they run."""
        nodes: dict[int | None, list[int]] = {}
        for number, node in enumerate(self.graph.nodes):
            if not is_leaf(node):
                nodes.setdefault(node.layer, []).append(number)
        launches: dict[int | None, list[int]] = defaultdict(list)
        for number, layer in enumerate(self._layers_of_launches):
            launches[layer].append(number)
        return tuple(
            GraphBlock(layer, self._title(layer), tuple(mine), tuple(launches[layer]))
            for layer, mine in nodes.items()
        )

    @cached_property
    def block_of(self) -> dict[int, int]:
        """The block of each node that is computed, and of each view."""
        return {n: i for i, block in enumerate(self.blocks) for n in block.nodes}

    def block_of_layer(self, layer: int) -> int | None:
        """The place of the block of a layer."""
        return next((i for i, block in enumerate(self.blocks) if block.layer == layer), None)

    @cached_property
    def readers(self) -> dict[int, list[int]]:
        """The readers of each node, in order."""
        found: dict[int, list[int]] = defaultdict(list)
        for number, node in enumerate(self.graph.nodes):
            for source in dict.fromkeys(node.sources):
                found[source].append(number)
        return found

    @cached_property
    def by_key(self) -> dict[str, int]:
        """Each node by what a selection calls it."""
        return {key_of(node): number for number, node in enumerate(self.graph.nodes)}

    @property
    def computed(self) -> list[int]:
        """Numbers of the nodes that an operation computes: neither leaves nor views."""
        return [n for n, node in enumerate(self.graph.nodes) if node.role == ""]

    def structure(self, block: GraphBlock) -> Hashable:
        """The same for blocks that compute the same, whatever their types and devices."""
        local = {number: i for i, number in enumerate(block.nodes)}
        return tuple(
            (
                plain_name(node),
                node.op,
                tuple(node.dims),
                tuple(local.get(s, -1 - len(self.graph.nodes[s].dims)) for s in node.sources),
            )
            for node in (self.graph.nodes[number] for number in block.nodes)
        )

    def likeness(self, block: GraphBlock, launched: bool) -> Hashable:
        """The same for blocks that also run on the same devices, and, where launches are shown, in
        the same ones.
        """
        devices = tuple(self.graph.nodes[number].device for number in block.nodes)
        if not launched:
            return self.structure(block), devices
        launches = [self.graph.launches[number] for number in block.launches]
        return tuple((one.device, one.op, *one.kernels) for one in launches), devices

    def runs(self, launched: bool = False) -> list[range]:
        """Blocks one behind the other that are alike."""
        found: list[range] = []
        before: Hashable = None
        for i, block in enumerate(self.blocks):
            like = self.likeness(block, launched)
            if found and like == before:
                found[-1] = range(found[-1].start, i + 1)
            else:
                found.append(range(i, i + 1))
            before = like
        return found

    def outside(self, block: GraphBlock) -> list[int]:
        """Nodes outside the block that it reads, except leaves."""
        own = set(block.nodes)
        read = (s for number in block.nodes for s in self.graph.nodes[number].sources)
        return [s for s in dict.fromkeys(read) if s not in own and not is_leaf(self.graph.nodes[s])]

    @property
    def _layers_of_launches(self) -> Sequence[int | None]:
        """The layer of each launch; a helper's is that of the first launch which reads it."""
        graph = self.graph
        layers = [self._layer_of(launch.nodes) for launch in graph.launches]
        for number in reversed(range(len(layers))):
            if not graph.launches[number].nodes:
                reading = (i for i, x in enumerate(graph.launches) if number in x.sources)
                reader = next(reading, None)
                layers[number] = None if reader is None else layers[reader]
        return layers

    def _layer_of(self, nodes: Sequence[int]) -> int | None:
        return self.graph.nodes[nodes[-1]].layer if nodes else None

    def _title(self, layer: int | None) -> str:
        if layer is None:
            return tr("input")
        return (
            tr("output block") if layer == self.graph.n_layer else tr("layer {layer}", layer=layer)
        )


def is_leaf(node: GraphNode) -> bool:
    """Return whether a node is a weight, a cache or an input, so that no operation computes it."""
    return node.role in ("weight", "cache", "input")


def key_of(node: GraphNode) -> str:
    """Return the node's name as in a selection, with "#occurrence" unless that is 0."""
    return node.name if node.occurrence == 0 else f"{node.name}#{node.occurrence}"


def title_of(node: GraphNode) -> str:
    """How people call it: what the model left nameless by its operation."""
    return node.op if NUMBERED.match(node.name) else node.name


def plain_name(node: GraphNode) -> str:
    """The name without the layer's number."""
    name = title_of(node)
    return name if node.layer is None else re.sub(rf"(-|_l){node.layer}\b", r"\1", name)


def shape_text(node: GraphNode) -> str:
    """The dimensions, the fastest first."""
    return " × ".join(map(str, node.dims))
