"""Makers of the nodes that lowering puts beside a model's: activations in panels, pairs grouped by
expert, parts of attention and of long sorts with their merges.
"""

from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.launches.attention_split import split_of
from engine.backends.opencl.launches.best import BLOCK as BEST_BLOCK
from engine.backends.opencl.launches.quantize import BLOCK, BLOCK_BYTES
from engine.backends.opencl.launches.sort import LONGEST
from engine.gguf.formats import F32, I8, I32
from engine.graph.lowered import (
    ArgsortMerge,
    AttentionMerge,
    BestMerge,
    GroupIds,
    LoweredArgsort,
    Panels,
    Quantize,
)
from engine.graph.node import Arguments, node, writing
from engine.graph.op import Op
from engine.graph.ops.arithmetic import Binary
from engine.graph.ops.attention import FusedAttention
from engine.graph.ops.matmul import MatmulId
from engine.graph.ops.norm import Argsort, Best
from engine.graph.tensor import Tensor

SORT_BLOCK = 64

# Pairs of token and expert for every expert, from which on they are grouped.
_GROUPED = 4


def in_place_of(target: Tensor, op: Op, arguments: Arguments) -> Tensor:
    """A node of `op` that stands for `target`: it writes its storage, and bears its name."""
    return writing(op, target, arguments, target.name)


def result(target: Tensor) -> Tensor:
    """`target` as something that the launch of another node writes, too."""
    return in_place_of(target, Op.RESULT, Arguments())


def either_way(total: Binary) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """A sum's operands in both orders."""
    return (total.a, total.b), (total.b, total.a)


def panels_of(x: Tensor, panels: Panels) -> Tensor:
    """The rows of `x` [K, ...] in panels: bytes [a panel's, panels]."""
    rows = x.nelements // x.shape[0]
    size = x.shape[0] // BLOCK * panels.rows * BLOCK_BYTES[panels.bits]
    made = node(Op.QUANTIZE, I8, (size, -(-rows // panels.rows)), Quantize(x, panels=panels))
    return made.named(f"{x.name} ({'panels' if panels.bits == 32 else f'{panels.bits} bits'})")


def grouped_ids(product: MatmulId) -> Tensor | None:
    """The pairs of token and expert by expert, where that saves reading weights: i32 [experts + 2]
    where each expert's pairs start, then the pairs [used * tokens]. The last group is of ids that
    no expert has.
    """
    ids, experts = product.ids, product.a.shape[2]
    pairs = ids.shape[0] * ids.shape[1]
    if pairs < _GROUPED * experts or pairs == 1:
        return None
    made = node(Op.GROUP_IDS, I32, (experts + 2 + pairs,), GroupIds(ids, experts=experts))
    return made.named(f"{ids.name} (grouped)")


def split_attention(attention: Tensor, traits: DeviceTraits) -> tuple[Tensor, ...]:
    """An attention node as the device runs it: itself, or its chunks' shares and their merge.

    The merge writes the storage of `attention`; the shares [Dv + 2, H, T, chunks] are their own.
    """
    op = FusedAttention.of(attention)
    chunks = split_of(op, traits).chunks
    if chunks == 1:
        return (attention,)
    dim_v, heads, n_tokens, _ = attention.shape
    shares = node(Op.ATTENTION, F32, (dim_v + 2, heads, n_tokens, chunks), op)
    shares = shares.named(f"{attention.name} (shares)")
    merge = AttentionMerge(shares, op.sinks)
    return shares, in_place_of(attention, Op.ATTENTION_MERGE, merge)


def split_argsort(argsort: Tensor) -> tuple[Tensor, ...]:
    """An argsort as the device runs it: itself, or sorted blocks and their merge.

    Merging goes back and forth between both storages and ends in the second one's: the blocks are
    such that it takes an odd number of steps.
    """
    op, n = Argsort.of(argsort), argsort.shape[0]
    if n <= LONGEST:
        return (argsort,)
    block = SORT_BLOCK if _merges(n, SORT_BLOCK) % 2 else 2 * SORT_BLOCK
    parts = LoweredArgsort(op.x, descending=op.descending, block=block)
    blocks = node(Op.ARGSORT, I32, argsort.shape, parts).named(f"{argsort.name} (blocks)")
    merge = ArgsortMerge(op.x, blocks, descending=op.descending, block=block)
    return blocks, in_place_of(argsort, Op.ARGSORT_MERGE, merge)


def split_best(best: Tensor) -> tuple[Tensor, ...]:
    """The largest of each row as the device finds them: those of every block, then those of these,
    until one block holds all.
    """
    op, rest = Best.of(best), best.shape[1:]
    pairs = op.x.shape[0]
    made: list[Tensor] = []
    while pairs > BEST_BLOCK:
        blocks = -(-pairs // BEST_BLOCK)
        pairs = op.k * blocks
        code = Op.BEST_MERGE if made else Op.BEST
        arguments = BestMerge(made[-1], k=op.k) if made else op
        parts = node(code, F32, (2 * pairs, *rest), arguments)
        made.append(parts.named(f"{best.name} ({blocks} blocks)"))
    if not made:
        return (best,)
    return *made, in_place_of(best, Op.BEST_MERGE, BestMerge(made[-1], k=op.k))


def _merges(n: int, block: int) -> int:
    """Steps from runs of `block` elements to one of n."""
    return (-(-n // block) - 1).bit_length()
