"""Nodes as an OpenCL device runs them: activations of tiled weights are quantised once, products of
the same activations share a launch, and what may be is fused (fuse.py).

A RESULT takes no launch: it stands for what the node before it writes, too.
"""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.attention_split import split_attention
from engine.backends.opencl.fuse import fuse
from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.launches.matmul import AT_ONCE, is_tiled, operands_of
from engine.backends.opencl.launches.quantize import quantized
from engine.backends.opencl.launches.sort import split_argsort
from engine.backends.opencl.rewrite import as_node, result
from engine.gguf.formats import Format
from engine.graph.op import Op
from engine.graph.tensor import Tensor


def lower(
    nodes: Sequence[Tensor],
    type_of: TypeOf,
    traits: DeviceTraits,
    kept: frozenset[Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """The nodes to run, in order; fused, except for `kept` storages, unless that is None.

    A lowered node is a view onto the storage of the tensor it stands for, so that readers of that
    tensor find its bytes.
    """
    lowered: list[Tensor] = []
    in_12_bits: dict[Tensor, Tensor] = {}
    together = _together(nodes, type_of)
    for node in nodes:
        if node.op is Op.ATTENTION:
            lowered.extend(split_attention(node, traits))
        elif node.op is Op.ARGSORT:
            lowered.extend(split_argsort(node))
        elif node not in together:
            lowered.append(node)
        elif node is together[node][0]:
            b = operands_of(node)[1]
            if b not in in_12_bits:
                in_12_bits[b] = quantized(b, traits)
                lowered.append(in_12_bits[b])
            lowered.extend(_products(together[node], in_12_bits[b]))
    return fuse(lowered, kept, traits)


def _together(nodes: Sequence[Tensor], type_of: TypeOf) -> dict[Tensor, list[Tensor]]:
    """Products of tiled weights, each with those that one launch makes: same input, same format."""
    groups: dict[tuple[Tensor, Format], list[Tensor]] = {}
    found: dict[Tensor, list[Tensor]] = {}
    for node in nodes:
        if node.op is Op.MULMAT and is_tiled(operands_of(node)[0], type_of):
            a, b = operands_of(node)
            group = groups.get((b, a.fmt), [])
            if len(group) in (0, AT_ONCE):
                group = groups[b, a.fmt] = []
            group.append(node)
            found[node] = group
    return found


def _products(nodes: Sequence[Tensor], x: Tensor) -> list[Tensor]:
    """The first product with the others among its sources, and these as its results."""
    others = [result(node) for node in nodes[1:]]
    sources = [operands_of(nodes[0])[0], x]
    for node, other in zip(nodes[1:], others, strict=True):
        sources += [operands_of(node)[0], other]
    return [as_node(nodes[0].op, nodes[0], *sources), *others]
