"""Nodes as an OpenCL device runs them: activations of tiled weights are put into panels once,
products of the same activations share a launch, and what may be is fused (fuse.py).

A RESULT takes no launch: it stands for what the node before it writes, too.
"""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.attention_split import split_attention
from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.launches.matmul import AT_ONCE, is_tiled, operands_of
from engine.backends.opencl.launches.matmul_experts import grouped_ids
from engine.backends.opencl.launches.quantize import panel_rows, panels_of
from engine.backends.opencl.launches.sort import split_argsort
from engine.backends.opencl.lowering.fuse import fuse
from engine.backends.opencl.lowering.rewrite import as_node, result
from engine.backends.opencl.tiles.schemes import SCHEMES
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
    together = _together(nodes, type_of)
    made: dict[tuple[object, ...], Tensor] = {}

    def once(node: Tensor) -> Tensor:
        """The node, or the one made before of the same source in the same way."""
        key = (node.op, node.src, *node.attr.values())
        if key not in made:
            made[key] = node
            lowered.append(node)
        return made[key]

    for node in nodes:
        if node.op is Op.ATTENTION:
            lowered.extend(split_attention(node, traits))
        elif node.op is Op.ARGSORT:
            lowered.extend(split_argsort(node))
        elif node.op is Op.MATMUL_ID and is_tiled(operands_of(node)[0], type_of):
            (a, b), ids = operands_of(node), node.src[2]
            x, grouped = once(panels_of(b, 1, SCHEMES[a.fmt].exact)), grouped_ids(node)
            lowered.append(as_node(node.op, node, a, x, once(grouped) if grouped else ids))
        elif node not in together:
            lowered.append(node)
        elif node is together[node][0]:
            a, b = operands_of(node)
            panel = panel_rows(b.nelements // b.shape[0], traits)
            x = once(panels_of(b, panel, SCHEMES[a.fmt].exact))
            lowered.extend(_products(together[node], x))
    return fuse(lowered, kept, traits)


def _together(nodes: Sequence[Tensor], type_of: TypeOf) -> dict[Tensor, list[Tensor]]:
    """Products of tiled weights, each with those that one launch makes: same input, same format."""
    groups: dict[tuple[Tensor, Format], list[Tensor]] = {}
    found: dict[Tensor, list[Tensor]] = {}
    for node in nodes:
        if node.op is Op.MATMUL and is_tiled(operands_of(node)[0], type_of):
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
