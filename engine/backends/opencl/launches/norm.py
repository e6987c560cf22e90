"""Launches of rms_norm, layer_norm and l2_norm."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    Args,
    f32,
    i32,
    i64,
    readable,
    row_shape,
    row_teams,
    sources,
)
from engine.gguf.formats import F32
from engine.graph.tensor import Tensor


def supports_norm(node: Tensor, type_of: TypeOf) -> bool:
    """f32 rows; weights and biases without gaps."""
    _, *row = sources(node)
    plain = all(t.strides[0] == 4 for t in row)
    return readable(node, type_of) and all(t.fmt == F32 for t in sources(node)) and plain


def norm(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """A team of items a row. Sources: x, and a weight and a bias where the operation has them."""
    x, weight, bias = (*node.src, None, None)[:3]
    assert x is not None
    n0, n1, n2, rows = row_shape(x.shape)
    per_group, size, local, defines = row_teams(int(rows), traits)
    args: Args = (
        *(node, x, weight, bias, n0, n1, n2, rows, *map(i64, x.strides)),
        *(i32(weight is not None), i32(bias is not None), per_group, f32(node.attr["eps"])),
    )
    return [Launch("norm", node.op, args, size, local, {**defines, "OP": node.op})]
