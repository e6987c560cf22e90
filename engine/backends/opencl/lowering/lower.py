"""Nodes as an OpenCL device runs them: activations of tiled weights are put into panels once,
products of the same activations share a launch, and what is too long for one launch is cut and
merged. What may be is fused afterwards (fusions.py).

A RESULT takes no launch: it stands for what the node before it writes, too.
"""

from collections.abc import Mapping, Sequence

from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.launches.matmul_tiled import AT_ONCE, is_tiled
from engine.backends.opencl.launches.quantize import (
    has_dots,
    in_digits,
    panel_bits,
    panel_rows,
)
from engine.backends.opencl.lowering.helpers import (
    grouped_ids,
    in_place_of,
    panels_of,
    result,
    split_argsort,
    split_attention,
    split_best,
)
from engine.device.backend import Computes, TypeOf
from engine.gguf.formats import Format
from engine.graph.lowered import (
    CombineAdd,
    MatmulAdd,
    MatmulExperts,
    MatmulTiled,
    NormChain,
    Panels,
)
from engine.graph.op import Op
from engine.graph.ops.matmul import Matmul, MatmulId
from engine.graph.tensor import Tensor


def lower(
    nodes: Sequence[Tensor],
    type_of: TypeOf,
    traits: DeviceTraits,
    computes: Computes | None = None,
) -> tuple[Tensor, ...]:
    """The nodes to run, in order.

    A lowered node is a view onto the storage of the tensor it stands for, so that readers of that
    tensor find its bytes. `computes` gets the nodes behind each; helpers are of none.
    """
    lowered: list[Tensor] = []
    computes = {} if computes is None else computes
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
        parts: Sequence[Tensor] = (node,)
        if node.op is Op.ATTENTION:
            parts = split_attention(node, traits)
        elif node.op is Op.ARGSORT:
            parts = split_argsort(node)
        elif node.op is Op.BEST:
            parts = split_best(node)
        elif node.op is Op.MATMUL_ID and is_tiled(MatmulId.of(node).a, type_of):
            product = MatmulId.of(node)
            grouped = grouped_ids(product)
            x = once(_panels(product.b, product.a, 1, grouped is not None, traits))
            experts = MatmulExperts(product.a, x, once(grouped) if grouped else product.ids)
            parts = (in_place_of(node, Op.MATMUL_EXPERTS, experts),)
        elif node in together and node is together[node][0]:
            a, b = Matmul.of(node).a, Matmul.of(node).b
            panel = panel_rows(b.nelements // b.shape[0], traits)
            x = once(_panels(b, a, panel, False, traits))
            parts = _products(together[node], x)
        elif node in together:
            parts = ()
        lowered.extend(parts)
        computes.update((part, tuple(together.get(node, (node,)))) for part in parts)
    return tuple(lowered)


def _panels(x: Tensor, weight: Tensor, panel: int, scattered: bool, traits: DeviceTraits) -> Tensor:
    """x as a product with `weight` reads it, `panel` rows together, which may be `scattered`."""
    rows = x.nelements // x.shape[0]
    bits = panel_bits(weight.fmt, rows, panel, traits)
    digits = has_dots(traits) if scattered else in_digits(weight.fmt, rows, panel, traits)
    return panels_of(x, Panels(panel, bits, bits == 12 and digits))


def _together(nodes: Sequence[Tensor], type_of: TypeOf) -> dict[Tensor, list[Tensor]]:
    """Products of tiled weights, each with those that one launch makes: same input, same format."""
    groups: dict[tuple[Tensor, Format], list[Tensor]] = {}
    found: dict[Tensor, list[Tensor]] = {}
    for node in nodes:
        if node.op is Op.MATMUL and is_tiled(Matmul.of(node).a, type_of):
            a, b = Matmul.of(node).a, Matmul.of(node).b
            group = groups.get((b, a.fmt), [])
            if len(group) in (0, AT_ONCE):
                group = groups[b, a.fmt] = []
            group.append(node)
            found[node] = group
    return found


def _products(nodes: Sequence[Tensor], x: Tensor) -> list[Tensor]:
    """The node of the first product, which makes the others, too, and these as its results."""
    first, *others = nodes
    results = [result(node) for node in others]
    further = [(Matmul.of(node).a, y) for node, y in zip(others, results, strict=True)]
    pairs = [source for pair in further for source in pair]
    op = MatmulTiled(Matmul.of(first).a, x, *pairs)
    return [in_place_of(first, Op.MATMUL_TILED, op), *results]


IN_PLACE: Mapping[Op, tuple[int, ...]] = {
    **dict.fromkeys((Op.ADD, Op.SUB, Op.MUL, Op.DIV), (0, 1)),
    **dict.fromkeys((Op.SCALE, Op.SOFTCAP, Op.CLAMP, Op.ADD_ID), (0,)),
    **dict.fromkeys((Op.SQR, Op.SQRT, Op.SIN, Op.COS, Op.EXP, Op.SOFTPLUS), (0,)),
    # up as well as gate
    **dict.fromkeys((Op.SILU, Op.GELU, Op.GELU_ERF, Op.QUICK_GELU), (0, 1)),
    **dict.fromkeys((Op.RELU, Op.SWIGLU_LIMIT), (0, 1)),
    **dict.fromkeys((Op.TANH, Op.SIGMOID, Op.XIELU), (0,)),
    **dict.fromkeys((Op.RMS_NORM, Op.LAYER_NORM, Op.L2_NORM), (0,)),
    Op.SOFTMAX: (0,),
    Op.ROPE: (0,),  # an item reads both channels of a pair first
    Op.NORM_CHAIN: (NormChain.position("x"), NormChain.position("added")),
    Op.COMBINE_ADD: (CombineAdd.position("added"), CombineAdd.position("more")),
    Op.MATMUL_ADD: (MatmulAdd.position("added"),),
}
