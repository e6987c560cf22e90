"""Nodes as an OpenCL device runs them: activations of tiled weights are quantised once."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.attention_split import split_attention
from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.launches.matmul import is_tiled, operands_of
from engine.backends.opencl.launches.quantize import quantized
from engine.graph.tensor import Op, Tensor


def lower(nodes: Sequence[Tensor], type_of: TypeOf, traits: DeviceTraits) -> tuple[Tensor, ...]:
    """The nodes to run, in order.

    A lowered node is a view onto the storage of the tensor it stands for, so that readers of that
    tensor find its bytes.
    """
    lowered: list[Tensor] = []
    in_12_bits: dict[Tensor, Tensor] = {}
    for node in nodes:
        if node.op is Op.ATTENTION:
            lowered.extend(split_attention(node, traits))
            continue
        if node.op is not Op.MULMAT or not is_tiled(operands_of(node)[0], type_of):
            lowered.append(node)
            continue
        a, b = operands_of(node)
        if b not in in_12_bits:
            in_12_bits[b] = quantized(b)
            lowered.append(in_12_bits[b])
        lowered.append(stand_for(node, a, in_12_bits[b]))
    return tuple(lowered)


def stand_for(node: Tensor, *src: Tensor) -> Tensor:
    """`node` with other sources, writing the same bytes."""
    return Tensor(
        node.op,
        node.fmt,
        node.shape,
        node.strides,
        src,
        node.attr,
        root=node.storage,
        offset=node.offset,
        name=node.name,
    )
