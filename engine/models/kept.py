"""State of a layer between steps: a closed set of shapes, and the caches made from them.

To make another one takes its case in `make_caches`, or in `make_states` where it is one value for
all tokens, and what it becomes beside `LayerCache` and `LayerState`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.errors import BadSetting
from engine.gguf.formats import F32, Format
from engine.graph.tensor import Role, Tensor, leaf
from engine.kvcache.causal import CausalCache
from engine.kvcache.encoded import EncodedCache
from engine.kvcache.group import CacheGroup
from engine.kvcache.states import StateCache
from engine.layers.rope import RopeParams
from engine.layers.step import LayerCache, LayerState

CELL_STEP = 256
PICTURES = -1
"""The number of the cache of pictures' or an encoder's rows, which is none of the group's."""
TOGETHER = 2
"""Largest pictures whose rows are held at once, of smaller ones more; each further sequence has
room for one.
"""
WORKING, CHECKPOINTS = 2, 4
"""Slots of recurrent states: what a step reads and writes for each sequence, and those to go back
to.
"""
SLOTS = WORKING + CHECKPOINTS
"""Of one sequence."""


@dataclass(frozen=True)
class Cells:
    """Keys and values of every token that can still be seen: of all, or of the last `window`.

    `key_dim` and `value_dim` are of a head, `window` counts the token itself. `rope` is what keys
    were turned by, None for nothing: a shift of the context turns them on. Keys that are not
    `movable` hold a position that was learned: a shift reads the tokens again. Where it is not
    `ahead`, rows of a picture see none behind them, though they see each other in other layers.
    """

    key_dim: int
    value_dim: int
    heads: int
    rope: RopeParams | None
    window: int | None = None
    movable: bool = True
    ahead: bool = True


@dataclass(frozen=True)
class Borrowed:
    """The cells of an earlier layer, which this one reads and does not write (Gemma 3n)."""

    layer: int


@dataclass(frozen=True)
class Chunk:
    """Cells of the present chunk: a token at p sees from floor(p / size) * size on (Llama 4)."""

    cells: Cells
    size: int


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention: one row per token for all heads, `rope_dim` turned channels and
    then `rank` of a joint latent, which is the value as well (DeepSeek-V2).
    """

    rope_dim: int
    rank: int
    rope: RopeParams | None


@dataclass(frozen=True)
class State:
    """A recurrence: one value for all tokens so far, in float32 whatever keys are kept in. The
    convolution's last inputs [kernel - 1, channels], a state of `size` elements, and the `fed`
    channels that entered its feed-forward last; 0 for none.
    """

    channels: int
    kernel: int
    size: int
    fed: int = 0


@dataclass(frozen=True)
class Encoded:
    """Keys and values of an encoder's rows, written when an image enters and seen by all later
    tokens (cross-attention).
    """

    key_dim: int
    value_dim: int
    heads: int
    rows: int


@dataclass(frozen=True)
class Nothing:
    """A layer that looks at no other token."""


@dataclass(frozen=True)
class Both:
    """Attention and a recurrence side by side in one layer (Falcon-H1)."""

    cells: Cells
    state: State


@dataclass(frozen=True)
class Crossed:
    """Attention to tokens, then to an encoder's rows, in one layer (T5). Scores have a learned
    bias: no quantised cache is read without the fused attention.
    """

    cells: Cells
    encoded: Encoded


Sight = tuple[int | None, int | None, bool, bool]
"""What a cache is made by, besides its size."""
Kept = Cells | Borrowed | Chunk | Latent | State | Encoded | Nothing | Both | Crossed


def make_caches(
    kept: Sequence[Kept],
    n_ctx: int,
    n_batch: int,
    kv: Format,
    n_sequences: int = 1,
    n_cells: int = 0,
) -> tuple[CacheGroup, list[LayerCache | None]]:
    """One cache for each distinct window or chunk, and what of each layer becomes cells of them;
    `make_states` makes the rest. So many sequences of `n_ctx` tokens at most have room at once,
    all together of `n_cells`, if that is more.

    Raises `BadSetting` where heads are no whole blocks of `kv`.
    """
    seen: list[Kept] = [
        shape.cells if isinstance(shape, Both | Crossed) else shape for shape in kept
    ]
    sights = list(dict.fromkeys(_sight(k) for k in seen if isinstance(k, Cells | Chunk | Latent)))
    whole = _up(max(n_ctx, n_cells))
    sizes = [
        min(whole, _up(n_sequences * (window or chunk or whole) + n_batch))
        for window, chunk, *_ in sights
    ]
    n_encoded = _encoded_cells(kept, n_sequences)
    layers: list[LayerCache | None] = []
    for i, shape in enumerate(seen):
        match shape:
            case Cells() | Chunk():
                index = sights.index(_sight(shape))
                cells = shape.cells if isinstance(shape, Chunk) else shape
                layers.append(_cells(cells, i, index, sizes[index], kv))
            case Latent():
                index = sights.index(_sight(shape))
                layers.append(_latent(shape, i, index, sizes[index], kv))
            case Borrowed():
                lent = layers[shape.layer]
                assert lent is not None, f"layer {i} borrows of {shape.layer}, which keeps no cells"
                layers.append(replace(lent, borrowed=True))
            case Nothing() | State():
                layers.append(None)
            case Encoded():
                layers.append(_cells(shape, i, PICTURES, n_encoded, kv))
    for i, shape in enumerate(kept):
        own = layers[i]
        if isinstance(shape, Crossed) and own is not None:
            layers[i] = replace(own, cross=_crossed(shape.encoded, i, n_encoded, kv))
    caches = [CausalCache(size, *sight) for size, sight in zip(sizes, sights, strict=True)]
    encoded = EncodedCache(n_encoded) if n_encoded else None
    recurrent = any(isinstance(shape, State | Both) for shape in kept)
    return CacheGroup(
        caches, encoded, StateCache(_n_slots(n_sequences) if recurrent else 0)
    ), layers


def make_states(kept: Sequence[Kept], n_sequences: int = 1) -> list[LayerState | None]:
    """States of the recurrent layers, in as many slots as `make_caches` counts."""
    n_slots = _n_slots(n_sequences)
    return [
        None
        if shape is None
        else LayerState(
            _slots(f"state_conv_l{i}", (shape.kernel - 1) * shape.channels, n_slots),
            _slots(f"state_l{i}", shape.size, n_slots),
            _slots(f"state_fed_l{i}", shape.fed, n_slots),
        )
        for i, shape in enumerate(map(_state, kept))
    ]


def _n_slots(n_sequences: int) -> int:
    return WORKING * n_sequences + CHECKPOINTS


def _state(shape: Kept) -> State | None:
    shape = shape.state if isinstance(shape, Both) else shape
    return shape if isinstance(shape, State) else None


def _slots(name: str, size: int, n_slots: int) -> Tensor | None:
    return leaf(name, F32, (size, n_slots), Role.CACHE) if size else None


def _sight(shape: Cells | Chunk | Latent) -> Sight:
    """Its window, its chunk, whether its keys can move, and whether rows see each other."""
    match shape:
        case Chunk(size=size):
            return None, size, True, True
        case Cells(window=window, movable=movable, ahead=ahead):
            return window, None, movable, ahead
        case Latent():
            return None, None, True, True


def _encoded_cells(kept: Sequence[Kept], n_sequences: int) -> int:
    """For rows of the largest pictures that are seen together; 0 where none are kept."""
    shapes = [shape.encoded if isinstance(shape, Crossed) else shape for shape in kept]
    rows = max((shape.rows for shape in shapes if isinstance(shape, Encoded)), default=0)
    return _up(pictures_of(n_sequences) * rows)


def pictures_of(n_sequences: int) -> int:
    """How many of the largest pictures so many sequences have room for."""
    return TOGETHER + n_sequences - 1


def _cells(shape: Cells | Encoded, i: int, cache: int, n_cells: int, kv: Format) -> LayerCache:
    _check_blocks(kv, "a head", shape.key_dim, shape.value_dim)
    return LayerCache(
        leaf(f"cache_k_l{i}", kv, (shape.key_dim * shape.heads, n_cells), Role.CACHE),
        leaf(f"cache_v_l{i}", kv, (shape.value_dim * shape.heads, n_cells), Role.CACHE),
        shape.heads,
        cache,
        shape.rope if isinstance(shape, Cells) else None,
    )


def _crossed(shape: Encoded, i: int, n_cells: int, kv: Format) -> LayerCache:
    if kv.quantized:
        expected = "f16 or f32: scores with a learned bias are not computed with quantised caches"
        raise BadSetting("kv", kv.name.lower(), expected)
    return LayerCache(
        leaf(f"cache_cross_k_l{i}", kv, (shape.key_dim * shape.heads, n_cells), Role.CACHE),
        leaf(f"cache_cross_v_l{i}", kv, (shape.value_dim * shape.heads, n_cells), Role.CACHE),
        shape.heads,
        PICTURES,
        None,
    )


def _latent(shape: Latent, i: int, cache: int, n_cells: int, kv: Format) -> LayerCache:
    """One row [turned channels | latent] per token; the latent is the value, too."""
    _check_blocks(kv, "a part of the latent's row", shape.rope_dim, shape.rank)
    keys = leaf(f"cache_k_l{i}", kv, (shape.rope_dim + shape.rank, n_cells), Role.CACHE)
    values = keys.view(kv.row_bytes(shape.rope_dim), (shape.rank, n_cells), keys.strides[1:2])
    return LayerCache(keys, values, 1, cache, shape.rope)


def _check_blocks(kv: Format, what: str, *dims: int) -> None:
    for dim in dims:
        if dim % kv.block:
            expected = f"f16 or f32: {what} of {dim} is not a multiple of its blocks of {kv.block}"
            raise BadSetting("kv", kv.name.lower(), expected)


def _up(n: int) -> int:
    return -(-n // CELL_STEP) * CELL_STEP
