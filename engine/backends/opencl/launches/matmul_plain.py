"""Launches of matrix products whose operands lie as in the file: numbers or blocks along K."""

from collections.abc import Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    BLOCK_WIDTH,
    FLOATS,
    ROW_NAMES,
    Defines,
    are,
    gapless,
    ints,
    strides,
    vector_width,
)
from engine.device.backend import TypeOf
from engine.graph.ops.matmul import Matmul, MatmulId
from engine.graph.tensor import Tensor

# Items that share a row: numbers are many vectors long, blocks are taken 32 elements at a time.
_TEAM_OF_NUMBERS, _TEAM_OF_BLOCKS = 64, 32

# The fewest pairs an expert for which weights are decoded for several of them at once.
_SHARED = 2


def supports_plain(a: Tensor, b: Tensor) -> bool:
    """Rows of any type along K, times f32, f16 or bf16 rows."""
    return are(ROW_NAMES, a) and are(FLOATS, b) and gapless(a, b)


def matmul(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over products, batch by batch."""
    op = Matmul.of(node)
    a, b = op.a, op.b
    m, n, n2, n3 = node.shape
    columns = 1 if n == 1 else 4
    rows, team, defines = _item(a, b, columns, traits)
    args: Args = {
        "y": node,
        "a": a,
        "b": b,
        **ints(k=a.shape[0], m=m, n=n, n2=n2),
        **ints(group2=n2 // a.shape[2], group3=n3 // a.shape[3]),
        **strides("a", a.strides[1:], 1),
        **strides("b", b.strides[1:], 1),
    }
    size = (-(-m // rows) * team, -(-n // columns), n2 * n3)
    return [Launch("matmul_plain", "matmul", args, size, (team, 1, 1), defines)]


def matmul_id(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over rows, and over experts or pairs of token and expert, whichever are fewer."""
    op = MatmulId.of(node)
    a, b, ids = op.a, op.b, op.ids
    m, used, tokens, _ = node.shape
    pairs, experts = used * tokens, a.shape[2]
    rows, team, defines = _item(a, b, 4 if pairs >= _SHARED * experts else 1, traits)
    args: Args = {
        "y": node,
        "a": a,
        "b": b,
        "ids": ids,
        **ints(k=a.shape[0], m=m, experts=experts, used=used, pairs=pairs, b_used=b.shape[1]),
        **strides("a", a.strides[1:3], 1),
        **strides("b", b.strides[1:3], 1),
        **strides("id", ids.strides[:2]),
    }
    size = (-(-m // rows) * team, pairs if pairs <= experts else experts + 1)
    return [Launch("matmul_plain", "matmul_id", args, size, (team, 1), defines)]


def _item(a: Tensor, b: Tensor, columns: int, traits: DeviceTraits) -> tuple[int, int, Defines]:
    """Rows that an item makes, items of a team, and the program's defines."""
    blocks = a.fmt.quantized
    if traits.items_take_vectors:
        rows, team = 2 if blocks else 4, 1
    else:
        rows = 1
        team = min(_TEAM_OF_BLOCKS if blocks else _TEAM_OF_NUMBERS, traits.max_work_group)
    width, step = (BLOCK_WIDTH, 4) if blocks else (vector_width(traits), 1)
    types: Defines = {"A": ROW_NAMES[a.fmt], "B": ROW_NAMES[b.fmt]}
    sizes: Defines = {"W": width, "STEP": step, "LOCAL": team, "ROWS": rows, "COLUMNS": columns}
    return rows, team, {**types, **sizes}
