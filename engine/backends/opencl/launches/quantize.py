"""Activations in panels, in 12 bits or as they are: the node that holds them, and its launch."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import Arg, DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import Defines, i32, i64
from engine.gguf.formats import F32, I8
from engine.graph.op import Op
from engine.graph.tensor import Tensor, node

BLOCK = 32
BLOCK_BYTES, EXACT_BYTES = 80, 128
"""What a row's 32 elements take, in 12 bits and as they are: X_BYTES in common.cl."""

# Blocks that an item of a CPU quantises: a launch for one row must be worth its price.
_EACH = 64


def has_wide_vectors(traits: DeviceTraits) -> bool:
    """Vectors of 16 numbers: on x86 they come with twice as many registers, for more sums."""
    return traits.is_cpu and traits.vector_ints >= 16


def panels_of(x: Tensor, panel: int, exact: bool) -> Tensor:
    """A node that holds the rows of `x` [K, ...] in 12 bits, or as they are for weights that are
    floats: bytes [a panel's, panels].
    """
    rows = x.nelements // x.shape[0]
    size = x.shape[0] // BLOCK * panel * (EXACT_BYTES if exact else BLOCK_BYTES)
    made = node(Op.QUANTIZE, I8, (size, -(-rows // panel)), x, panel=panel, exact=exact)
    return made.named(f"{x.name} ({'panels' if exact else '12 bits'})")


def panel_rows(rows: int, traits: DeviceTraits) -> int:
    """One row a panel, or four, or eight where registers hold the sums of so many."""
    if rows <= 4 or (traits.is_cpu and not has_wide_vectors(traits)):
        return 1 if rows == 1 else 4
    return traits.tuned.panel if traits.is_cpu else traits.tuned.lane_panel


def panel_defines(node: Tensor) -> Defines:
    """What a program that writes or reads the panels of that node is built with."""
    return {"X_F32": 1} if node.attr.get("exact") else {}


def supports_quantize(node: Tensor, type_of: TypeOf) -> bool:
    """f32 rows of whole blocks."""
    x = node.src[0]
    return x is not None and x.fmt is F32 and x.strides[0] == 4 and x.shape[0] % BLOCK == 0


def quantize(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One item some blocks of a row, those that fill the last panel included."""
    x, panel = node.src[0], node.attr["panel"]
    assert x is not None
    k, n1, n2, n3 = x.shape
    each = _EACH if traits.is_cpu else 1
    sizes = (i32(k // BLOCK), i32(n1 * n2 * n3), i32(n1), i32(n2))
    args: tuple[Arg, ...] = (node, x, *sizes, *map(i64, x.strides[1:]), i32(panel), i32(each))
    size = (-(-k // BLOCK // each), node.shape[1] * panel)
    local = (1, 1) if traits.is_cpu else None
    return [Launch("quantize", "quantize", args, size, local, panel_defines(node))]
