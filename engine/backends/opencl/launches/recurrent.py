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
    given = CausalConv.of(node)
    packed = given.w.is_contiguous and gapless(given.x, given.bias)
    return _supports(node, type_of, given.state, given.at) and packed


def causal_conv(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """An item some channels of some columns."""
    given = LoweredCausalConv.of(node)
    channels, tokens = given.x.shape[:2]
    taps, width = given.w.shape[0], vector_width(traits)
    run = RUN if traits.items_take_vectors else 1
    parts = parts_in(given.at)
    rows, runs = tokens + parts * (taps - 1), -(-channels // (run * width))
    wanted = 8 * traits.compute_units if traits.items_take_vectors else rows * runs
    per_item = max(1, rows * runs // wanted)
    size, local = items(runs * -(-rows // per_item), team_size(traits))
    args: Args = {
        "out": node,
        "kept": given.kept,
        "x": given.x,
        "w": given.w,
        "bias": given.bias,
        "state": given.state,
        "at": given.at,
        "to": given.to,
        **ints(n0=channels, tokens=tokens, parts=parts),
        **strides("x", given.x.strides[1:2], 1),
        **_slots(given),
        **ints(per_item=per_item, has_bias=given.bias is not None),
        **ints(has_to=given.to is not None, silu=given.silu),
    }
    defines = {"W": width, "RUN": run, "LOCAL": local[0], "TAPS": taps}
    return [Launch("causal_conv", "causal_conv", args, size, local, defines)]


def supports_delta_net(node: Tensor, type_of: TypeOf) -> bool:
    """Heads without gaps, of a size that vectors divide."""
    given = DeltaNet.of(node)
    rows = (given.g,) if given.g.shape != given.beta.shape else ()
    heads = gapless(given.q, given.k, given.v, *rows) and given.v.shape[0] % 4 == 0
    return _supports(node, type_of, given.state, given.at) and heads


def delta_net(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """An item, or a group of lanes, some columns of a head's state of a sequence."""
    given = LoweredDeltaNet.of(node)
    has_dt, has_to = given.dt is not None, given.to is not None
    numbers = {**ints(tiled=given.tiled, has_d=False, has_dt=has_dt, has_to=has_to)}
    numbers = {**numbers, **floats(eps=given.eps, least=0.0)}
    sources = (given.q, given.k, given.v, given.beta, given.g, given.a, None)
    rule = ("DELTA",) if given.g.shape == given.beta.shape else ("DELTA", "BY_CHANNEL")
    return [_recurrence(node, given, sources, numbers, traits, rule)]


def supports_ssm_scan(node: Tensor, type_of: TypeOf) -> bool:
    """Heads without gaps of a size that vectors divide, or channels with states of such a size."""
    given = SsmScan.of(node)
    dim, size = given.x.shape[0], given.b.shape[0]
    each = size if given.a.shape[0] == size else dim
    fits = each % 4 == 0 and (given.a.shape[0] == 1 or dim == 1)
    packed = given.a.is_contiguous and gapless(given.x, given.b, given.c, given.d)
    return _supports(node, type_of, given.state, given.at) and fits and packed


def ssm_scan(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Like delta_net, or with several channels an item."""
    given = LoweredSsmScan.of(node)
    if given.a.shape[0] > 1:
        return [_channels(node, given, traits)]
    has_d, has_dt, has_to = (t is not None for t in (given.d, given.dt, given.to))
    numbers = {**ints(tiled=False, has_d=has_d, has_dt=has_dt, has_to=has_to)}
    numbers = {**numbers, **floats(eps=0.0, least=given.least)}
    sources = (given.c, given.b, given.x, given.delta, None, given.a, given.d)
    return [_recurrence(node, given, sources, numbers, traits)]


def supports_token_shift(node: Tensor, type_of: TypeOf) -> bool:
    """Columns without gaps."""
    given = TokenShift.of(node)
    return _supports(node, type_of, given.state, given.at) and gapless(given.x, given.mix)


def token_shift(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """An item some channels of some columns, like causal_conv."""
    given = LoweredTokenShift.of(node)
    (channels, tokens), (_, own, mixes) = given.x.shape[:2], given.mix.shape[:3]
    width, parts = vector_width(traits), parts_in(given.at)
    run = RUN if traits.items_take_vectors else 1
    rows, runs = mixes * tokens + parts, -(-channels // (run * width))
    wanted = 8 * traits.compute_units if traits.items_take_vectors else rows * runs
    per_item = max(1, rows * runs // wanted)
    size, local = items(runs * -(-rows // per_item), team_size(traits))
    args: Args = {
        "out": node,
        "kept": given.kept,
        "x": given.x,
        "mix": given.mix,
        "state": given.state,
        "at": given.at,
        "to": given.to,
        **ints(n0=channels, tokens=tokens, mixes=mixes, parts=parts),
        **strides("x", given.x.strides[1:2], 1),
        **strides("mix", (given.mix.strides[1] if own > 1 else 0, given.mix.strides[2]), 1),
        **_slots(given),
        **ints(per_item=per_item, has_to=given.to is not None),
    }
    defines = {"W": width, "RUN": run, "LOCAL": local[0]}
    return [Launch("token_shift", "token_shift", args, size, local, defines)]


def supports_wkv(node: Tensor, type_of: TypeOf) -> bool:
    """Heads without gaps, of a size that vectors divide; what is erased packed."""
    given = Wkv.of(node)
    packed = [t for t in (given.erased, given.rate, given.bonus) if t is not None]
    heads = gapless(given.q, given.k, given.v, given.g) and given.v.shape[0] % 4 == 0
    whole = all(t.is_contiguous for t in packed)
    return _supports(node, type_of, given.state, given.at) and heads and whole


def wkv(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Like delta_net."""
    given = LoweredWkv.of(node)
    numbers = {**ints(tiled=False, has_d=False, has_dt=False, has_to=given.to is not None)}
    numbers = {**numbers, **floats(eps=given.eps, least=0.0)}
    sources = (given.q, given.k, given.v, None, given.g, given.erased, given.rate or given.bonus)
    erases = ("ERASES",) if given.erased is not None else ()
    bonus = ("BONUS",) if given.bonus is not None else ()
    rule = ("WKV", "BY_CHANNEL", *erases, *bonus)
    return [_recurrence(node, given, sources, numbers, traits, rule)]


Maybe = Tensor | None
Sources = tuple[Tensor, Tensor, Tensor, Maybe, Maybe, Maybe, Maybe]


def _recurrence(
    node: Tensor,
    given: LoweredDeltaNet | LoweredSsmScan | LoweredWkv,
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
    parts, by_channel = parts_in(given.at), "BY_CHANNEL" in rule
    args: Args = {
        "out": node,
        "kept": given.kept,
        **dict(zip("qkv", (q, k, v), strict=True)),
        "step": step,
        "g": g,
        "a": a,
        "d": d,
        "dt": None if isinstance(given, LoweredWkv) else given.dt,
        "state": given.state,
        "at": given.at,
        "to": given.to,
        **ints(heads=heads, key_heads=key_heads, tokens=tokens, parts=parts),
        **strides("q", q.strides[1:3], 1),
        **strides("k", k.strides[1:3], 1),
        **strides("v", v.strides[1:3], 1),
        **strides("step", step.strides[:2] if step else (0, 0)),
        **strides("g", g.strides[by_channel : 2 + by_channel] if g else (0, 0)),
        **_slots(given),
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


def _channels(node: Tensor, given: LoweredSsmScan, traits: DeviceTraits) -> Launch:
    x, b, c, delta = given.x, given.b, given.c, given.delta
    (_, heads, tokens), (state, groups) = x.shape[:3], b.shape[:2]
    width = _widest(state, vector_width(traits))
    each = CHANNELS if traits.items_take_vectors else 1
    parts = parts_in(given.at)
    size, local = items(parts * -(-heads // each), team_size(traits))
    args: Args = {
        "out": node,
        "kept": given.kept,
        "x": x,
        "delta": delta,
        "b": b,
        "c": c,
        "a": given.a,
        "d": given.d,
        "state": given.state,
        "at": given.at,
        "to": given.to,
        **ints(heads=heads, groups=groups, tokens=tokens, parts=parts),
        **strides("x", x.strides[1:3], 1),
        **strides("delta", delta.strides[:2]),
        **strides("b", b.strides[1:3], 1),
        **strides("c", c.strides[1:3], 1),
        **_slots(given),
        **ints(each=each, has_d=given.d is not None, has_to=given.to is not None),
    }
    defines = {"W": width, "VECTORS": state // width, "LOCAL": local[0]}
    return Launch("ssm_channels", "ssm_channels", args, size, local, defines)


def _supports(node: Tensor, type_of: TypeOf, state: Tensor, at: Tensor) -> bool:
    """Numbers of f32 beside `at`, which lie as in the file, and slots without gaps."""
    numbers = [source for source in node.src if source is not at]
    typed = are((F32,), *numbers) and are((I32,), at) and at.is_contiguous
    return readable(node, type_of) and typed and gapless(state)


def _slots(
    given: LoweredCausalConv | LoweredDeltaNet | LoweredSsmScan | LoweredTokenShift | LoweredWkv,
) -> Args:
    """How far apart slots are where the state is read, and where it is kept."""
    kept = given.kept.strides[1] if given.kept else 0
    return longs(state1=given.state.strides[1], kept1=kept)


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
