"""Steps through a graph: along its edges, and from block to block."""

from app.state.graph.blocks import GraphIndex


def along(index: GraphIndex, number: int | None, way: int) -> int | None:
    """The first node that reads this one (1), or the first that it reads (-1); no leaf. Walking
    begins with the first node.
    """
    if number is None:
        return next(iter(index.block_of), None)
    near = index.readers.get(number, []) if way > 0 else index.graph.nodes[number].sources
    return next((node for node in near if node in index.block_of), None)


def along_launches(index: GraphIndex, number: int, way: int) -> int | None:
    """Like `along`, for launches: the first that reads it, or the last that it reads."""
    launches = index.graph.launches
    if way > 0:
        return next((i for i, launch in enumerate(launches) if number in launch.sources), None)
    return next(reversed(launches[number].sources), None)


def same_place(index: GraphIndex, number: int | None, way: int) -> int | None:
    """The node at this one's place in the block before (-1) or behind (1)."""
    if number is None:
        return along(index, number, way)
    at = index.block_of.get(number)
    if at is None or not 0 <= at + way < len(index.blocks):
        return None
    here, there = index.blocks[at].nodes, index.blocks[at + way].nodes
    return there[min(here.index(number), len(there) - 1)]


def cyclic(found: list[int], number: int | None, way: int) -> int | None:
    """The next of what was found, round and round."""
    if not found:
        return None
    if number not in found:
        return found[0 if way > 0 else -1]
    return found[(found.index(number) + way) % len(found)]


def launch_of(index: GraphIndex, number: int, now: int | None) -> int | None:
    """A launch of a node: the present one if it is one of them, else the last."""
    mine = [i for i, launch in enumerate(index.graph.launches) if number in launch.nodes]
    return now if now in mine else (mine[-1] if mine else None)
