"""What a model is published with, and the tensors that its hyperparameters make."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.engine.models.published.header import Shapes, Value


@dataclass(frozen=True)
class Size:
    """`params` is the published number, `cache` the bytes that 8192 tokens of context keep: keys
    and values in halves, states in floats, without checkpoints.
    """

    arch: str
    params: float
    cache: int
    v: int
    keys: Mapping[str, Value]
    shapes: Shapes = field(repr=False)


CONTEXT = 8192
SLOTS = 2
"""Of a state: one is read while the other is written."""
HALF, FLOAT = 2, 4


def kv(layers: int, heads: int, dim: int, cells: int = CONTEXT) -> int:
    """Keys and values of some layers."""
    return layers * 2 * heads * dim * cells * HALF


def gated(e: int, f: int) -> dict[str, tuple[int, ...]]:
    return {"ffn_gate": (e, f), "ffn_up": (e, f), "ffn_down": (f, e)}


def experts(e: int, f: int, x: int, shared: int = 0) -> dict[str, tuple[int, ...]]:
    made: dict[str, tuple[int, ...]] = {"ffn_gate_inp": (e, x)}
    made |= {"ffn_gate_exps": (e, f, x), "ffn_up_exps": (e, f, x), "ffn_down_exps": (f, e, x)}
    if shared:
        made |= {"ffn_gate_shexp": (e, shared), "ffn_up_shexp": (e, shared)}
        made |= {"ffn_down_shexp": (shared, e)}
    return made


def attention(e: int, h: int, k: int, d: int, gate: int = 1) -> dict[str, tuple[int, ...]]:
    made = {"attn_q": (e, h * d * gate), "attn_k": (e, k * d), "attn_v": (e, k * d)}
    return made | {"attn_output": (h * d, e)}


def vectors(names: str, size: int) -> dict[str, tuple[int, ...]]:
    return dict.fromkeys(names.split(), (size,))


NORMS = "attn_norm ffn_norm"
Block = Callable[[int], Mapping[str, tuple[int, ...]]]


def whole(
    layers: int, e: int, v: int, block: Block, tied: bool, norm: str = "output_norm"
) -> Shapes:
    """The tensors of a decoder; names with a dot have no further suffix."""
    made: dict[str, tuple[int, ...]] = {"token_embd.weight": (e, v)}
    if norm:
        made[f"{norm}.weight"] = (e,)
    if not tied:
        made["output.weight"] = (e, v)
    for i in range(layers):
        for name, shape in block(i).items():
            made[f"blk.{i}.{name}" if name.endswith(BARE) else f"blk.{i}.{name}.weight"] = shape
    return made


BARE = (".bias", "ssm_a", "ssm_d", "cross_attn_attn_gate", "cross_attn_mlp_gate")


def mixed(
    arch: str,
    params: float,
    sizes: tuple[int, int, Value, int, Value, int, int],
    block: Block,
    cache: int,
    tied: bool = False,
    norm: str = "output_norm",
    **others: Value,
) -> Size:
    """Of L, E, F, H, K, D and V, with layers that differ."""
    n, e, f, h, k, d, v = sizes
    shapes = whole(n, e, v, block, tied, norm)
    return Size(arch, params, cache, v, keys(n, e, f, h, k, d, **others), shapes)


def keys(
    layers: int, e: int, f: int, h: int, k: Value, d: int, **others: Value
) -> dict[str, Value]:
    made: dict[str, Value] = {
        "block_count": layers,
        "context_length": 131072,
        "embedding_length": e,
        "feed_forward_length": f,
        "attention.head_count": h,
        "attention.head_count_kv": k,
        "attention.key_length": d,
        "attention.value_length": d,
        "attention.layer_norm_rms_epsilon": 1e-6,
    }
    return made | {name.replace("__", "."): value for name, value in others.items()}


def dense(
    arch: str,
    params: float,
    sizes: tuple[int, int, int, int, int, int, int],
    extra: Mapping[str, tuple[int, ...]] = {},  # noqa: B006
    tied: bool = False,
    cache: int = 0,
    **others: Value,
) -> Size:
    """Of L, E, F, H, K, D and V."""
    n, e, f, h, k, d, v = sizes
    block = {**attention(e, h, k, d), **gated(e, f), **vectors(NORMS, e), **extra}
    shapes = whole(n, e, v, lambda i: block, tied)
    cache = cache or kv(n, k, d)
    return Size(arch, params, cache, v, keys(n, e, f, h, k, d, **others), shapes)


def state(layers: int, kernel: int, channels: int, size: int) -> int:
    """A convolution's last inputs and a recurrence's value, of some layers, in each slot."""
    return layers * SLOTS * ((kernel - 1) * channels + size) * FLOAT


def every(n: int, yes: Mapping[str, tuple[int, ...]], no: Mapping[str, tuple[int, ...]]) -> Block:
    """One kind in each n-th layer, another in the others."""
    return lambda i: yes if (i + 1) % n == 0 else no
