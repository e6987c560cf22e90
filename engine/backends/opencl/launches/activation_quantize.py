"""Launches of an activation whose result the next product wants in 12 bits."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.quantize import BLOCK, panel_defines
from engine.backends.opencl.launches.sizes import Args, i32, i64, sources, vector_width
from engine.gguf.formats import F32
from engine.graph.tensor import Tensor

# Blocks of a row that an item of a CPU makes.
_EACH = 16


def supports_activation_quantize(node: Tensor, type_of: TypeOf) -> bool:
    """f32 rows of whole blocks, without gaps."""
    rows = sources(node)
    return all(t.fmt is F32 and t.strides[0] == 4 and t.shape[0] % BLOCK == 0 for t in rows)


def activation_quantize(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """An item some blocks of a row."""
    gate, up = sources(node)[0], node.src[1]
    k, n1, n2, n3 = gate.shape
    each, blocks = _EACH if traits.is_cpu else 1, k // BLOCK
    args: Args = (
        *(node, gate, up),
        *map(i32, (blocks, n1 * n2 * n3, n1, n2)),
        *map(i64, gate.strides[1:]),
        i32(up is not None),
        *map(i64, (up or gate).strides[1:]),
        *(i32(node.attr["panel"]), i32(each)),
    )
    size, local = (-(-blocks // each), n1 * n2 * n3), (1, 1) if traits.is_cpu else None
    defines = {"W": vector_width(traits), **panel_defines(node)}
    return [Launch("activation_quantize", node.attr["act"], args, size, local, defines)]
