"""Launches of copies: moves between plain types, blocks to floats and f32 to blocks."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.move import alike, converts, move
from engine.backends.opencl.launches.sizes import (
    BLOCK_NAMES,
    BLOCK_WIDTH,
    FLOATS,
    ROW_NAMES,
    TYPE_NAMES,
    Args,
    cover,
    i64,
    readable,
    row_shape,
    sources,
)
from engine.gguf.formats import F32
from engine.graph.tensor import Tensor


def supports_copy(node: Tensor, type_of: TypeOf) -> bool:
    """Plain types among themselves, any type to itself; f32 rows to blocks, blocks to floats."""
    target, x = alike(node, sources(node)[-1])
    to_blocks = x.fmt == F32 and x.strides[0] == 4 and node.fmt in BLOCK_NAMES
    from_blocks = x.fmt in ROW_NAMES and node.fmt in FLOATS and node.strides[0] == node.fmt.bytes
    rows = (to_blocks or from_blocks) and target.shape == x.shape
    return readable(node, type_of) and (converts(x.fmt, node.fmt) or rows)


def copy(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Into a tensor of its own, or one that is given: items over elements, or blocks to write."""
    x = sources(node)[-1]
    if converts(x.fmt, node.fmt):
        return [move(node, x, traits)]
    return [_blocks(*alike(node, x), traits)]


def _blocks(target: Tensor, x: Tensor, traits: DeviceTraits) -> Launch:
    block, width = target.fmt.block, BLOCK_WIDTH if x.fmt.quantized else 0
    n0, n1, n2, rows = row_shape((x.shape[0] // block, *x.shape[1:]))
    per_item, size, local, defines = cover(int(n0), int(rows), traits, block, width)
    strides = (*target.strides[1:], *x.strides[1:])
    args: Args = (target, x, n0, n1, n2, rows, *map(i64, strides), per_item)
    if x.fmt.quantized:
        kernel, names = "from_blocks", {"FROM": ROW_NAMES[x.fmt], "Y": TYPE_NAMES[target.fmt]}
    else:
        kernel, names = "to_blocks", {"B": BLOCK_NAMES[target.fmt]}
    return Launch("copy", kernel, args, size, local, {**defines, **names})
