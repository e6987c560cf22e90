"""Launches of what carries a state from token to token: causal_conv, delta_net, ssm_scan,
token_shift and wkv.
"""

from collections.abc import Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    are,
    floats,
    gapless,
    ints,
    items,
    longs,
    readable,
    strides,
    team_size,
    vector_width,
)
from engine.device.backend import TypeOf
from engine.gguf.formats import F32, I32
from engine.graph.lowered import (
    LoweredCausalConv,
    LoweredDeltaNet,
    LoweredSsmScan,
    LoweredTokenShift,
    LoweredWkv,
)
from engine.graph.ops.recurrent import CausalConv, DeltaNet, SsmScan, TokenShift, Wkv, parts_in
from engine.graph.tensor import Tensor

RUN = 16
"""Vectors of channels that an item of a convolution takes on CPUs: its inputs stay in L1."""

STATE_BYTES = 1 << 15
"""Of a state that an item carries on CPUs, at most: what L1 holds."""

TEAM = 64
"""Lanes of a group, at most."""

PARTS = 4
"""Lanes that share a column of a state, which they keep in registers."""

CHANNELS = 16
"""Channels of an item where each is a head, on CPUs: their inputs share a cache line."""


def supports_causal_conv(node: Tensor, type_of: TypeOf) -> bool:
    """Columns without gaps, packed weights."""
    op = CausalConv.of(node)
    packed = op.w.is_contiguous and gapless(op.x, op.bias)
    return _supports(node, type_of, op.state, op.at) and packed


def causal_conv(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """An item some channels of some columns."""
    op = LoweredCausalConv.of(node)
    channels, tokens = op.x.shape[:2]
    taps, width = op.w.shape[0], vector_width(traits)
    run = RUN if traits.items_take_vectors else 1
    parts = parts_in(op.at)
    rows, runs = tokens + parts * (taps - 1), -(-channels // (run * width))
    wanted = 8 * traits.compute_units if traits.items_take_vectors else rows * runs
    per_item = max(1, rows * runs // wanted)
    size, local = items(runs * -(-rows // per_item), team_size(traits))
    args: Args = {
        "out": node,
        "kept": op.kept,
        "x": op.x,
        "w": op.w,
        "bias": op.bias,
        "state": op.state,
        "at": op.at,
        "to": op.to,
        **ints(n0=channels, tokens=tokens, parts=parts),
        **strides("x", op.x.strides[1:2], 1),
        **_slots(op),
        **ints(per_item=per_item, has_bias=op.bias is not None),
        **ints(has_to=op.to is not None, silu=op.silu),
    }
    defines = {"W": width, "RUN": run, "LOCAL": local[0], "TAPS": taps}
    return [Launch("causal_conv", "causal_conv", args, size, local, defines)]


def supports_delta_net(node: Tensor, type_of: TypeOf) -> bool:
    """Heads without gaps, of a size that vectors divide."""
    op = DeltaNet.of(node)
    rows = (op.g,) if op.g.shape != op.beta.shape else ()
    heads = gapless(op.q, op.k, op.v, *rows) and op.v.shape[0] % 4 == 0
    return _supports(node, type_of, op.state, op.at) and heads


def delta_net(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """An item, or a group of lanes, some columns of a head's state of a sequence."""
    op = LoweredDeltaNet.of(node)
    has_dt, has_to = op.dt is not None, op.to is not None
    numbers = {**ints(tiled=op.tiled, has_d=False, has_dt=has_dt, has_to=has_to)}
    numbers = {**numbers, **floats(eps=op.eps, least=0.0)}
    sources = (op.q, op.k, op.v, op.beta, op.g, op.a, None)
    rule = ("DELTA",) if op.g.shape == op.beta.shape else ("DELTA", "BY_CHANNEL")
    return [_recurrence(node, op, sources, numbers, traits, rule)]


def supports_ssm_scan(node: Tensor, type_of: TypeOf) -> bool:
    """Heads without gaps of a size that vectors divide, or channels with states of such a size."""
    op = SsmScan.of(node)
    dim, size = op.x.shape[0], op.b.shape[0]
    each = size if op.a.shape[0] == size else dim
    fits = each % 4 == 0 and (op.a.shape[0] == 1 or dim == 1)
    packed = op.a.is_contiguous and gapless(op.x, op.b, op.c, op.d)
    return _supports(node, type_of, op.state, op.at) and fits and packed


def ssm_scan(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Like delta_net, or with several channels an item."""
    op = LoweredSsmScan.of(node)
    if op.a.shape[0] > 1:
        return [_channels(node, op, traits)]
    has_d, has_dt, has_to = (t is not None for t in (op.d, op.dt, op.to))
    numbers = {**ints(tiled=False, has_d=has_d, has_dt=has_dt, has_to=has_to)}
    numbers = {**numbers, **floats(eps=0.0, least=op.least)}
    sources = (op.c, op.b, op.x, op.delta, None, op.a, op.d)
    return [_recurrence(node, op, sources, numbers, traits)]


def supports_token_shift(node: Tensor, type_of: TypeOf) -> bool:
    """Columns without gaps."""
    op = TokenShift.of(node)
    return _supports(node, type_of, op.state, op.at) and gapless(op.x, op.mix)


def token_shift(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """An item some channels of some columns, like causal_conv."""
    op = LoweredTokenShift.of(node)
    (channels, tokens), (_, own, mixes) = op.x.shape[:2], op.mix.shape[:3]
    width, parts = vector_width(traits), parts_in(op.at)
    run = RUN if traits.items_take_vectors else 1
    rows, runs = mixes * tokens + parts, -(-channels // (run * width))
    wanted = 8 * traits.compute_units if traits.items_take_vectors else rows * runs
    per_item = max(1, rows * runs // wanted)
    size, local = items(runs * -(-rows // per_item), team_size(traits))
    args: Args = {
        "out": node,
        "kept": op.kept,
        "x": op.x,
        "mix": op.mix,
        "state": op.state,
        "at": op.at,
        "to": op.to,
        **ints(n0=channels, tokens=tokens, mixes=mixes, parts=parts),
        **strides("x", op.x.strides[1:2], 1),
        **strides("mix", (op.mix.strides[1] if own > 1 else 0, op.mix.strides[2]), 1),
        **_slots(op),
        **ints(per_item=per_item, has_to=op.to is not None),
    }
    defines = {"W": width, "RUN": run, "LOCAL": local[0]}
    return [Launch("token_shift", "token_shift", args, size, local, defines)]


def supports_wkv(node: Tensor, type_of: TypeOf) -> bool:
    """Heads without gaps, of a size that vectors divide; what is erased packed."""
    op = Wkv.of(node)
    packed = [t for t in (op.erased, op.rate, op.bonus) if t is not None]
    heads = gapless(op.q, op.k, op.v, op.g) and op.v.shape[0] % 4 == 0
    whole = all(t.is_contiguous for t in packed)
    return _supports(node, type_of, op.state, op.at) and heads and whole


def wkv(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Like delta_net."""
    op = LoweredWkv.of(node)
    numbers = {**ints(tiled=False, has_d=False, has_dt=False, has_to=op.to is not None)}
    numbers = {**numbers, **floats(eps=op.eps, least=0.0)}
    sources = (op.q, op.k, op.v, None, op.g, op.erased, op.rate or op.bonus)
    erases = ("ERASES",) if op.erased is not None else ()
    bonus = ("BONUS",) if op.bonus is not None else ()
    rule = ("WKV", "BY_CHANNEL", *erases, *bonus)
    return [_recurrence(node, op, sources, numbers, traits, rule)]


Maybe = Tensor | None
Sources = tuple[Tensor, Tensor, Tensor, Maybe, Maybe, Maybe, Maybe]


def _recurrence(
    node: Tensor,
    op: LoweredDeltaNet | LoweredSsmScan | LoweredWkv,
    sources: Sources,
    numbers: Args,
    traits: DeviceTraits,
    rule: Sequence[str] = (),
) -> Launch:
    """The launch for q, k, v, step, g, a and d, as parts/recurrence.cl has them; `rule` are the
    defines that say which recurrence it is.
    """
    q, k, v, step, g, a, d = sources
    (dim, heads, tokens), (key, key_heads) = v.shape[:3], q.shape[:2]
    parts, by_channel = parts_in(op.at), "BY_CHANNEL" in rule
    args: Args = {
        "out": node,
        "kept": op.kept,
        **dict(zip("qkv", (q, k, v), strict=True)),
        "step": step,
        "g": g,
        "a": a,
        "d": d,
        "dt": None if isinstance(op, LoweredWkv) else op.dt,
        "state": op.state,
        "at": op.at,
        "to": op.to,
        **ints(heads=heads, key_heads=key_heads, tokens=tokens, parts=parts),
        **strides("q", q.strides[1:3], 1),
        **strides("k", k.strides[1:3], 1),
        **strides("v", v.strides[1:3], 1),
        **strides("step", step.strides[:2] if step else (0, 0)),
        **strides("g", g.strides[by_channel : 2 + by_channel] if g else (0, 0)),
        **_slots(op),
        **numbers,
    }
    defines: dict[str, int | str] = {"KEY": key, "DIM": dim, **dict.fromkeys(rule, 1)}
    if traits.items_take_vectors:
        width = _widest(dim, vector_width(traits))
        vectors = _vectors(dim, key, heads, width, traits)
        size, local = items(parts * heads * dim // (width * vectors), 1)
        defines = {**defines, "W": width, "VECTORS": vectors, "LOCAL": 1}
        return Launch("recurrence_vectors", "recurrence", args, size, local, defines)
    team = min(TEAM, team_size(traits))
    size, local = items(parts * heads * -(-dim // (team // PARTS)) * team, team)
    defines = {**defines, "PARTS": PARTS, "LOCAL": team}
    return Launch("recurrence_lanes", "recurrence", args, size, local, defines)


def _channels(node: Tensor, op: LoweredSsmScan, traits: DeviceTraits) -> Launch:
    x, b, c, delta = op.x, op.b, op.c, op.delta
    (_, heads, tokens), (state, groups) = x.shape[:3], b.shape[:2]
    width = _widest(state, vector_width(traits))
    each = CHANNELS if traits.items_take_vectors else 1
    parts = parts_in(op.at)
    size, local = items(parts * -(-heads // each), team_size(traits))
    args: Args = {
        "out": node,
        "kept": op.kept,
        "x": x,
        "delta": delta,
        "b": b,
        "c": c,
        "a": op.a,
        "d": op.d,
        "state": op.state,
        "at": op.at,
        "to": op.to,
        **ints(heads=heads, groups=groups, tokens=tokens, parts=parts),
        **strides("x", x.strides[1:3], 1),
        **strides("delta", delta.strides[:2]),
        **strides("b", b.strides[1:3], 1),
        **strides("c", c.strides[1:3], 1),
        **_slots(op),
        **ints(each=each, has_d=op.d is not None, has_to=op.to is not None),
    }
    defines = {"W": width, "VECTORS": state // width, "LOCAL": local[0]}
    return Launch("ssm_channels", "ssm_channels", args, size, local, defines)


def _supports(node: Tensor, type_of: TypeOf, state: Tensor, at: Tensor) -> bool:
    """Numbers of f32 beside `at`, which lie as in the file, and slots without gaps."""
    numbers = [source for source in node.src if source is not at]
    typed = are((F32,), *numbers) and are((I32,), at) and at.is_contiguous
    return readable(node, type_of) and typed and gapless(state)


def _slots(
    op: LoweredCausalConv | LoweredDeltaNet | LoweredSsmScan | LoweredTokenShift | LoweredWkv,
) -> Args:
    """How far apart slots are where the state is read, and where it is kept."""
    kept = op.kept.strides[1] if op.kept else 0
    return longs(state1=op.state.strides[1], kept1=kept)


def _widest(n: int, width: int) -> int:
    """The widest vector, at most `width`, that divides n, a multiple of 4."""
    while n % width:
        width //= 2
    return width


def _vectors(dim: int, key: int, heads: int, width: int, traits: DeviceTraits) -> int:
    """Vectors of columns to an item: as many as L1 holds, but work for every core."""
    vectors = 4
    while vectors > 1 and (
        dim % (width * vectors)
        or width * vectors * key * 4 > STATE_BYTES
        or heads * dim // (width * vectors) < 2 * traits.compute_units
    ):
        vectors //= 2
    return vectors
