"""Launches of `best`: the largest of every block of a row, and of what other groups left of it."""

from collections.abc import Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    are,
    ints,
    items,
    readable,
    rows_in,
    strides,
    team_size,
)
from engine.device.backend import TypeOf
from engine.gguf.formats import F32
from engine.graph.lowered import BestMerge
from engine.graph.ops.norm import Best
from engine.graph.tensor import Tensor

BLOCK = 1024
"""Elements, or pairs of value and index, that a work-group puts in order: best.cl."""


def supports_best(node: Tensor, type_of: TypeOf) -> bool:
    """f32 rows of any length, and of each at most half a block."""
    op = Best.of(node)
    return readable(node, type_of) and are((F32,), op.x) and op.k <= BLOCK // 2


def best(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One work-group for each block of a row."""
    op = Best.of(node)
    return [_launch(node, op.x, op.x.shape[0], op.k, False, traits)]


def best_merge(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """The same of the parts that other groups left."""
    op = BestMerge.of(node)
    return [_launch(node, op.parts, op.parts.shape[0] // 2, op.k, True, traits)]


def _launch(node: Tensor, x: Tensor, n0: int, k: int, merges: bool, traits: DeviceTraits) -> Launch:
    team = team_size(traits)
    size, local = items(rows_in(x.shape) * -(-n0 // BLOCK) * team, team)
    args: Args = {
        "out": node,
        "x": x,
        **ints(n0=n0, n1=x.shape[1], n2=x.shape[2]),
        **strides("x", x.strides),
    }
    defines = {"LOCAL": team, "K": k, "MERGES": int(merges)}
    return Launch("best", "best", args, size, local, defines)
