"""Launches of copies: moves between plain types, blocks to floats and f32 to blocks."""

from collections.abc import Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.move import alike, converts, move
from engine.backends.opencl.launches.sizes import (
    BLOCK_NAMES,
    BLOCK_WIDTH,
    FLOATS,
    ROW_NAMES,
    TYPE_NAMES,
    cover,
    gapless,
    ints,
    readable,
    row_shape,
    rows_in,
    strides,
)
from engine.device.backend import TypeOf
from engine.gguf.formats import F32
from engine.graph.node import Unary
from engine.graph.op import Op
from engine.graph.ops.copy import CopyInto
from engine.graph.tensor import Tensor


def supports_copy(node: Tensor, type_of: TypeOf) -> bool:
    """Plain types among themselves, any type to itself; f32 rows to blocks, blocks to floats."""
    target, x = alike(node, _copied(node))
    to_blocks = x.fmt == F32 and gapless(x) and node.fmt in BLOCK_NAMES
    from_blocks = x.fmt in ROW_NAMES and node.fmt in FLOATS and gapless(node)
    rows = (to_blocks or from_blocks) and target.shape == x.shape
    return readable(node, type_of) and (converts(x.fmt, node.fmt) or rows)


def copy(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Into a tensor of its own, or one that is given: items over elements, or blocks to write."""
    x = _copied(node)
    if converts(x.fmt, node.fmt):
        return [move(node, x, traits)]
    return [_blocks(*alike(node, x), traits)]


def _copied(node: Tensor) -> Tensor:
    return CopyInto.of(node).x if node.op is Op.COPY_INTO else Unary.of(node).x


def _blocks(target: Tensor, x: Tensor, traits: DeviceTraits) -> Launch:
    block, width = target.fmt.block, BLOCK_WIDTH if x.fmt.quantized else 0
    n0, rows = x.shape[0] // block, rows_in(x.shape)
    per_item, size, local, defines = cover(n0, rows, traits, block, width)
    args: Args = {
        "out": target,
        "x": x,
        **row_shape((n0, *x.shape[1:])),
        **strides("out", target.strides[1:], 1),
        **strides("x", x.strides[1:], 1),
        **ints(per_item=per_item),
    }
    if x.fmt.quantized:
        kernel, names = "from_blocks", {"FROM": ROW_NAMES[x.fmt], "Y": TYPE_NAMES[target.fmt]}
    else:
        kernel, names = "to_blocks", {"B": BLOCK_NAMES[target.fmt]}
    return Launch("copy", kernel, args, size, local, {**defines, **names})
