"""Activations of quantised matmul in 12 bits: the node that holds them, and its launch."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import Arg, DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import i32, i64
from engine.gguf.formats import F32, I8
from engine.graph.op import Op
from engine.graph.tensor import Tensor, node

BLOCK = 32
BLOCK_BYTES = 80
"""What a row's 32 elements take: quantize.cl."""

# Blocks that an item of a CPU quantises: a launch for one row must be worth its price.
_EACH = 64


def has_wide_vectors(traits: DeviceTraits) -> bool:
    """Vectors of 16 numbers: on x86 they come with twice as many registers, for more sums."""
    return traits.is_cpu and traits.vector_ints >= 16


def quantized(x: Tensor, traits: DeviceTraits) -> Tensor:
    """A node that holds the rows of `x` [K, ...] in 12 bits: bytes [a panel's, panels].

    A panel is one row, or four, or eight where registers hold the sums of so many.
    """
    rows = x.nelements // x.shape[0]
    panel = 1 if rows == 1 else 8 if rows > 4 and has_wide_vectors(traits) else 4
    size = x.shape[0] // BLOCK * panel * BLOCK_BYTES
    made = node(Op.QUANTIZE, I8, (size, -(-rows // panel)), x, panel=panel)
    return made.named(f"{x.name} (12 bits)")


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
    return [Launch("quantize", "quantize", args, size, (1, 1) if traits.is_cpu else None)]
