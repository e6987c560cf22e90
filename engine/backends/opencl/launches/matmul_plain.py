"""Launches of matrix products whose operands lie as in the file: numbers or blocks along K."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    BLOCK_WIDTH,
    FLOATS,
    ROW_NAMES,
    Args,
    Defines,
    i32,
    i64,
    operands,
    readable,
    sources,
    vector_width,
)
from engine.gguf.formats import I32
from engine.graph.tensor import Tensor

# Items that share a row: numbers are many vectors long, blocks are taken 32 elements at a time.
_TEAM_OF_NUMBERS, _TEAM_OF_BLOCKS = 64, 32

# The fewest pairs an expert for which weights are decoded for several of them at once.
_SHARED = 2


def supports_plain(node: Tensor, type_of: TypeOf) -> bool:
    """Rows of any type along K, times f32, f16 or bf16 rows."""
    a, b, *_ = sources(node)
    types = (ROW_NAMES, FLOATS, (I32,))[: len(node.src)]
    along = all(t.strides[0] == t.fmt.bytes for t in (a, b))
    return readable(node, type_of) and operands(node, *types) and along


def matmul_plain(node: Tensor, traits: DeviceTraits) -> Launch:
    """Items over products, batch by batch. Sources: a, b."""
    a, b = sources(node)
    m, n, n2, n3 = node.shape
    columns = 1 if n == 1 else 4
    rows, team, defines = _item(a, b, columns, traits)
    args: Args = (
        *(node, a, b, i32(a.shape[0]), i32(m), i32(n), i32(n2)),
        *(i32(n2 // a.shape[2]), i32(n3 // a.shape[3])),
        *map(i64, (*a.strides[1:], *b.strides[1:])),
    )
    size = (-(-m // rows) * team, -(-n // columns), n2 * n3)
    return Launch("matmul_plain", "matmul", args, size, (team, 1, 1), defines)


def matmul_id(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over rows, and over experts or pairs of token and expert, whichever are fewer."""
    a, b, ids = sources(node)
    m, used, tokens, _ = node.shape
    pairs, experts = used * tokens, a.shape[2]
    rows, team, defines = _item(a, b, 4 if pairs >= _SHARED * experts else 1, traits)
    sizes = (a.shape[0], m, experts, used, pairs, b.shape[1])
    strides = (*a.strides[1:3], *b.strides[1:3], *ids.strides[:2])
    args: Args = (node, a, b, ids, *map(i32, sizes), *map(i64, strides))
    size = (-(-m // rows) * team, pairs if pairs <= experts else experts + 1)
    return [Launch("matmul_plain", "matmul_id", args, size, (team, 1), defines)]


def _item(a: Tensor, b: Tensor, columns: int, traits: DeviceTraits) -> tuple[int, int, Defines]:
    """Rows that an item makes, items of a team, and the program's defines."""
    blocks = a.fmt.quantized
    rows = 1 if not traits.is_cpu else 2 if blocks else 4
    team = min(_TEAM_OF_BLOCKS if blocks else _TEAM_OF_NUMBERS, traits.max_work_group)
    team = 1 if traits.is_cpu else team
    width, step = (BLOCK_WIDTH, 4) if blocks else (vector_width(traits), 1)
    types: Defines = {"A": ROW_NAMES[a.fmt], "B": ROW_NAMES[b.fmt]}
    sizes: Defines = {"W": width, "STEP": step, "LOCAL": team, "ROWS": rows, "COLUMNS": columns}
    return rows, team, {**types, **sizes}
