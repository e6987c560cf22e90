"""Measured times of a step, assigned to the launches of its graph."""

from collections.abc import Mapping, Sequence

from engine.protocol import GraphDone

LEAST_CELLS = 256


def launch_times(graph: GraphDone, ns: Sequence[int]) -> Mapping[int, int]:
    """Nanoseconds of each launch of a graph, `ns` being those of its kernels in order; nothing
    where the step that was measured had other kernels.
    """
    if len(ns) != sum(len(launch.kernels) for launch in graph.launches):
        return {}
    found, at = {}, 0
    for number, launch in enumerate(graph.launches):
        found[number] = sum(ns[at : at + len(launch.kernels)])
        at += len(launch.kernels)
    return found


def cells_bucket(n_cells: int) -> int:
    """The size of a plan's caches for a context: 256, doubled until it holds so many."""
    size = LEAST_CELLS
    while size < n_cells:
        size *= 2
    return size
