"""Launches of argsort, and the helper node for rows that one work-group does not sort."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    Args,
    Defines,
    i32,
    i64,
    items,
    operands,
    readable,
    sources,
    team_size,
    vector_width,
)
from engine.gguf.formats import F32, I32
from engine.graph.op import Op
from engine.graph.tensor import Tensor
from engine.graph.tensor import node as new_node

LONGEST = 256
"""Elements that a work-group sorts: sort.cl. Longer rows are merged from shorter blocks."""

BLOCK = 64

# Indices of a run that an item of a CPU merges.
_EACH = 4096


def supports_argsort(node: Tensor, type_of: TypeOf) -> bool:
    """f32 rows of any length."""
    return readable(node, type_of) and operands(node, (F32,))


def split_argsort(node: Tensor) -> tuple[Tensor, ...]:
    """An argsort as the device runs it: itself, or sorted blocks and their merge.

    Merging goes back and forth between both storages and ends in the second one's: the blocks are
    such that it takes an odd number of steps.
    """
    n = node.shape[0]
    if n <= LONGEST:
        return (node,)
    block = BLOCK if _merges(n, BLOCK) % 2 else 2 * BLOCK
    attr = MappingProxyType({**node.attr, "block": block})
    blocks = new_node(Op.ARGSORT, I32, node.shape, *node.src, **attr)
    merged = replace(node, src=(*node.src, blocks), attr=attr, root=node.storage)
    return blocks.named(f"{node.name} (blocks)"), merged


def argsort(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Blocks in order; or, with these as a second source, their merge."""
    x, *blocks = sources(node)
    if blocks:
        return list(_merge(node, blocks[0], x, traits))
    n0, n1, n2, n3 = x.shape
    block = node.attr.get("block", n0)
    assert block <= LONGEST, f"{node}: lowered rows are sorted in blocks"
    team, rows = team_size(traits), n1 * n2 * n3
    size, local = items(rows * -(-n0 // block) * team, team)
    args: Args = (
        *(node, x, i32(n0), i32(n1), i32(n2)),
        *map(i64, x.strides),
        *(i32(block), _sign(node)),
    )
    return [Launch("sort", "sort_blocks", args, size, local, _defines(traits))]


def _merge(node: Tensor, blocks: Tensor, x: Tensor, traits: DeviceTraits) -> Iterator[Launch]:
    n0, n1, n2, n3 = x.shape
    run, source, target = node.attr["block"], blocks, node
    while run < n0:
        each = min(run, _EACH) if traits.is_cpu else 1
        size, local = items(-(-n0 // each) * n1 * n2 * n3, team_size(traits))
        args: Args = (
            *(target, source, x, i32(n0), i32(n1), i32(n2), i32(n1 * n2 * n3)),
            *map(i64, x.strides),
            *(i32(run), i32(each), _sign(node)),
        )
        yield Launch("sort", "merge", args, size, local, _defines(traits))
        run, source, target = 2 * run, target, source


def _merges(n: int, block: int) -> int:
    """Steps from runs of `block` elements to one of n."""
    return (-(-n // block) - 1).bit_length()


def _sign(node: Tensor) -> i32:
    return i32(-1 if node.attr["descending"] else 1)


def _defines(traits: DeviceTraits) -> Defines:
    return {"W": vector_width(traits), "LOCAL": team_size(traits)}
