"""What stands out in a picture of the graph: what is selected anywhere, found, or not the same in
another graph.
"""

from collections.abc import Collection, Iterable, Sequence

from app.state.graph.blocks import GraphIndex
from app.state.graph.scene import GraphScene
from app.state.selection import Selected
from app.views.graph.picture.painting import Marks


def marks_of(
    scene: GraphScene,
    selected: Selected,
    number: int | None,
    launch: int | None,
    found: Sequence[int],
    changed: Collection[int],
) -> Marks:
    """`number` is the node that is selected, `launch` the launch, where those are shown."""
    index, graph = scene.index, scene.index.graph
    clear = None
    if selected.split is not None and selected.split < len(graph.splits):
        clear = {i for i, node in enumerate(graph.nodes) if node.split == selected.split}
    elif selected.device is not None and number is None:
        clear = {i for i, node in enumerate(graph.nodes) if node.device == selected.device}
    card = _card(scene, selected.layer) if number is None else None
    weight = weight_of(index, selected)
    reading = index.readers.get(weight, ()) if weight is not None else ()
    if scene.shows == "operations":
        near = reading if number is None else near_of(index, number)
        return Marks(number, card, near, found, changed, clear)
    if launch is None and number is not None:
        launch = graph.nodes[number].launch
    near = _launches(index, reading)
    if launch is not None and launch >= 0:
        near = _near_launch(index, launch)
    into = None if clear is None else _launches(index, clear)
    return Marks(launch, card, near, _launches(index, found), _launches(index, changed), into)


def weight_of(index: GraphIndex, selected: Selected) -> int | None:
    """The weight that is selected, as a node of the graph."""
    return None if selected.tensor is None else index.by_key.get(selected.tensor)


def near_of(index: GraphIndex, number: int) -> Collection[int]:
    """What a node reads and what reads it."""
    return {*index.graph.nodes[number].sources, *index.readers.get(number, ())}


def _near_launch(index: GraphIndex, number: int) -> Collection[int]:
    launches = index.graph.launches
    behind = {i for i, launch in enumerate(launches) if number in launch.sources}
    return {*launches[number].sources, *behind}


def _launches(index: GraphIndex, nodes: Iterable[int]) -> Collection[int]:
    return {index.graph.nodes[node].launch for node in nodes} - {-1}


def _card(scene: GraphScene, layer: int | None) -> int | None:
    """The place of the card with that layer."""
    if layer is None:
        return None
    blocks = scene.index.blocks
    places = (
        at
        for at, card in enumerate(scene.cards)
        if any(blocks[block].layer == layer for block in card.blocks)
    )
    return next(places, None)
