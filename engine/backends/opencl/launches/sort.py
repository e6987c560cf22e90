"""Launches of argsort: blocks that a work-group sorts, and their merge."""

from collections.abc import Iterator, Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    Defines,
    are,
    ints,
    items,
    readable,
    rows_in,
    strides,
    team_size,
    vector_width,
)
from engine.device.backend import TypeOf
from engine.gguf.formats import F32
from engine.graph.lowered import ArgsortMerge, LoweredArgsort
from engine.graph.ops.norm import Argsort
from engine.graph.tensor import Tensor

LONGEST = 256
"""Elements that a work-group sorts: sort.cl. Longer rows are merged from shorter blocks."""

# Indices of a run that an item merges where it takes vectors.
_EACH = 4096


def supports_argsort(node: Tensor, type_of: TypeOf) -> bool:
    """f32 rows of any length."""
    return readable(node, type_of) and are((F32,), Argsort.of(node).x)


def argsort(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One work-group per block: a whole row, or a part of it."""
    op = LoweredArgsort.of(node)
    x, (n0, n1, n2, _) = op.x, op.x.shape
    block = op.block or n0
    assert block <= LONGEST, f"{node}: lowered rows are sorted in blocks"
    team, rows = team_size(traits), rows_in(x.shape)
    size, local = items(rows * -(-n0 // block) * team, team)
    args: Args = {
        "out": node,
        "x": x,
        **ints(n0=n0, n1=n1, n2=n2),
        **strides("x", x.strides),
        **ints(block=block, sign=_sign(op.descending)),
    }
    return [Launch("sort", "sort_blocks", args, size, local, _defines(traits))]


def argsort_merge(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """A launch for each doubling of the runs that are in order. They go back and forth between the
    blocks' storage and the node's, in which the last one ends.
    """
    return list(_merges(node, ArgsortMerge.of(node), traits))


def _merges(node: Tensor, op: ArgsortMerge, traits: DeviceTraits) -> Iterator[Launch]:
    x, (n0, n1, n2, _) = op.x, op.x.shape
    run, source, target, rows = op.block, op.blocks, node, rows_in(op.x.shape)
    while run < n0:
        each = min(run, _EACH) if traits.items_take_vectors else 1
        size, local = items(-(-n0 // each) * rows, team_size(traits))
        args: Args = {
            "out": target,
            "in": source,
            "x": x,
            **ints(n0=n0, n1=n1, n2=n2, rows=rows),
            **strides("x", x.strides),
            **ints(run=run, each=each, sign=_sign(op.descending)),
        }
        yield Launch("sort", "merge", args, size, local, _defines(traits))
        run, source, target = 2 * run, target, source


def _sign(descending: bool) -> int:
    return -1 if descending else 1


def _defines(traits: DeviceTraits) -> Defines:
    return {"W": vector_width(traits), "LOCAL": team_size(traits)}
