"""Cases: convolutions, shifts, delta rules and scans, which carry a state from token to token."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from engine.gguf.formats import F32, I32
from engine.graph import ops
from engine.graph.tensor import Role, Tensor
from engine.selftest.case import Case, bound, dims
from engine.selftest.operands import Operands

STATE_MOST, GATED_MOST = 1e-10, 1e-9
SLOTS = 8


class CarriedStep(NamedTuple):
    """Tokens, where the part of each sequence ends, and the slot that it reads."""

    tokens: int
    ends: tuple[int, ...]
    slots: tuple[int, ...]

    @property
    def label(self) -> str:
        """How many are real, of which sequences."""
        fresh = " fresh" if self.slots == (-1,) else ""
        return f"of {' '.join(map(str, self.ends))}{fresh}"

    @property
    def targets(self) -> list[int]:
        """A slot for each new state that nobody reads; none for a part without tokens."""
        begins = (0, *self.ends)
        return [
            1 + i if end > begin else -1
            for i, (begin, end) in enumerate(zip(begins, self.ends, strict=False))
        ]


STEPS = tuple(
    CarriedStep(tokens, (real,), (slot,))
    for (tokens, real), slot in product(((1, 1), (7, 5), (70, 70)), (SLOTS - 1, -1))
)
SEVERAL = CarriedStep(12, (4, 5, 9, 9), (SLOTS - 1, -1, SLOTS - 2, -1))
"""Sequences of which one begins; the last has no tokens."""

# Size of a head and of its keys, their heads and keys' heads.
HEADS = ((8, 8, 4, 2), (64, 128, 2, 2), (12, 36, 6, 3), (128, 128, 4, 1))
# Size of a head and of its state, heads and groups.
SCANS = ((64, 128, 4, 2), (8, 16, 8, 2), (12, 6, 3, 1))
# Size of a head and of its keys, and heads.
WKVS = ((64, 64, 2), (12, 36, 3))
WKV_RULES = ("erasing", "with bonus", "plain")
CHANNELS = ((70, 16), (33, 4), (16, 12))
# What the delta rule is hard for: hardly any decay, states that vanish, and keys that are alike.
HARD = {"lasting": (-1e-4, 1.0), "vanishing": (-90.0, 1.0), "similar keys": (-0.01, 0.02)}


def recurring() -> Iterator[Case]:
    """Each from zeros and from a slot, with padding, and with the new state put into a slot."""
    for step in (*STEPS, SEVERAL):
        tokens, label = step.tokens, step.label
        quick = tokens == 7 or step is SEVERAL
        for channels, taps, plain in ((40, 4, False), (193, 3, True), (1030, 4, False)):
            conv = bound(_conv, channels=channels, taps=taps, plain=plain, step=step)
            name = f"{dims(channels, tokens)} by {taps} {label}{' plain' * plain}"
            yield from _both("causal_conv", name, conv, quick, step)
        for sizes, tiled in product(HEADS, (False, True)):
            rule = bound(_delta, sizes=sizes, tiled=tiled, step=step)
            name = f"{dims(*sizes, tokens)} {label}{' tiled' * tiled}"
            yield from _both("delta_net", name, rule, quick and sizes == HEADS[tiled], step)
        for sizes in HEADS[1:3]:
            rule = bound(_delta, sizes=sizes, tiled=False, step=step, by_channel=True)
            yield from _both(
                "delta_net", f"by channel {dims(*sizes, tokens)} {label}", rule, quick, step
            )
        for channels, mixes, own in ((40, 6, False), (193, 2, True), (1030, 1, False)):
            shift = bound(_shift, channels=channels, mixes=mixes, own=own, step=step)
            name = f"{dims(channels, tokens, mixes)} {label}{' by token' * own}"
            yield from _both("token_shift", name, shift, quick, step)
        for square, kind in product(WKVS, WKV_RULES):
            weighted = bound(_wkv, sizes=square, rule=kind, step=step)
            name = f"{dims(*square, tokens)} {label} {kind}"
            yield from _both("wkv", name, weighted, quick and square == WKVS[0], step)
        for sizes in SCANS:
            scan = bound(_scan, sizes=sizes, step=step)
            name = f"{dims(*sizes, tokens)} {label}"
            yield from _both("ssm_scan", name, scan, quick, step)
        for heads, size in CHANNELS:
            scan = bound(_channels, heads=heads, size=size, step=step)
            name = f"channels {dims(heads, size, tokens)} {label}"
            yield from _both("ssm_scan", name, scan, quick, step)
        for sizes in HEADS[1:3]:
            gated = bound(_gated, sizes=sizes, step=step)
            name = f"gated {dims(*sizes, tokens)} {label}"
            yield Case("delta_net", name, gated, GATED_MOST, quick)
        for least in (0.0, 0.3):
            stepped = bound(_stepped, sizes=SCANS[0], step=step, least=least)
            name = f"stepped {dims(*SCANS[0], tokens)} {label}{' bounded' * bool(least)}"
            yield Case("ssm_scan", name, stepped, GATED_MOST, quick)
    long = CarriedStep(200, (200,), (-1,))
    for name, (decay, spread) in HARD.items():
        hard = bound(_delta, sizes=HEADS[1], tiled=False, step=long, decay=decay, spread=spread)
        yield from _both("delta_net", f"{name} {dims(*HEADS[1], 200)}", hard, False, long)
    for tokens in (1, 512):
        step = CarriedStep(tokens, (tokens,), (SLOTS - 1,))
        large = bound(_delta, sizes=(128, 128, 32, 16), tiled=True, step=step)
        yield Case("delta_net", f"{dims(128, 128, 32, tokens)}", large, speed=True)
        large = bound(_wkv, sizes=(64, 64, 32), rule="erasing", step=step)
        yield Case("wkv", f"{dims(64, 64, 32, tokens)}", large, speed=True)
        large = bound(_scan, sizes=(64, 128, 64, 1), step=step)
        yield Case("ssm_scan", f"{dims(64, 128, 64, tokens)}", large, speed=True)


def _both(
    op: str, label: str, build: Callable[..., Tensor], quick: bool, step: CarriedStep
) -> Iterator[Case]:
    """The packed result, and its columns with the cache that its states went into."""
    yield Case(op, label, build, STATE_MOST, quick)
    stored = bound(_stored, packed_of=build, step=step)
    yield Case(op, f"{label} stored", stored, STATE_MOST, quick)


def _stored(o: Operands, packed_of: Callable[..., Tensor], step: CarriedStep) -> Tensor:
    packed = packed_of(o)
    cache = o.make(F32, *_cache_of(packed).shape[:2], role=Role.CACHE)
    width, size = packed.shape[0], cache.shape[0]
    count = packed.shape[1] - len(step.ends) * size // width
    tail = packed.view(packed.strides[1] * count, (size, len(step.ends)))
    kept = ops.set_rows(cache, tail, o.put(I32, np.array(step.targets)))
    columns = packed.view(0, (width * count,))
    return ops.concat(columns, kept.reshape(kept.nelements), 0)


def _cache_of(packed: Tensor) -> Tensor:
    """The leaf that a state was read from."""
    (cache,) = (t for t in packed.src if t is not None and t.role is Role.CACHE)
    return cache


def _state(o: Operands, size: int, step: CarriedStep) -> tuple[Tensor, Tensor]:
    """A cache with other sequences' states beside these, and where in it these are."""
    at = np.stack([step.slots, step.ends], 1)
    return o.make(F32, size, SLOTS, role=Role.CACHE), o.put(I32, at)


def _parts(o: Operands, tokens: int, *shapes: tuple[int, int]) -> list[Tensor]:
    """[size, heads, T] of each shape, side by side in the rows of one product."""
    whole = o.make(F32, sum(size * heads for size, heads in shapes), tokens)
    starts = np.cumsum([0, *(size * heads for size, heads in shapes)]).tolist()
    return [
        whole.view(4 * start, (size, heads, tokens), (4 * size, whole.strides[1]))
        for start, (size, heads) in zip(starts, shapes, strict=False)
    ]


def _conv(o: Operands, channels: int, taps: int, plain: bool, step: CarriedStep) -> Tensor:
    """A convolution over part of a product's result; `plain` without a bias and silu."""
    whole = o.make(F32, channels + 5, step.tokens)
    x = whole.view(12, (channels, step.tokens), whole.strides[1:2])
    w, bias = o.make(F32, taps, channels), None if plain else o.make(F32, channels)
    return ops.causal_conv(x, w, bias, *_state(o, channels * (taps - 1), step), silu=not plain)


def _delta(
    o: Operands,
    sizes: tuple[int, int, int, int],
    tiled: bool,
    step: CarriedStep,
    decay: float = -0.5,
    spread: float = 1.0,
    by_channel: bool = False,
) -> Tensor:
    """Decays of about e^decay; keys that are `spread` apart where that is below 1."""
    dim, key, heads, key_heads = sizes
    tokens = step.tokens
    q, k, v = _parts(o, tokens, (key, key_heads), (key, key_heads), (dim, heads))
    if spread < 1:
        same = o.rng.standard_normal(key)
        k = o.put(F32, same + spread * o.rng.standard_normal((tokens, key_heads, key)))
    each = (key,) if by_channel else ()
    g = o.put(F32, decay * o.rng.uniform(0.5, 1.5, (tokens, heads, *each)))
    beta = o.put(F32, o.rng.uniform(0.1, 1.0, (tokens, heads)))
    state = _state(o, dim * key * heads, step)
    return ops.delta_net(q, k, v, g, beta, *state, eps=1e-6, tiled=tiled)


def _shift(o: Operands, channels: int, mixes: int, own: bool, step: CarriedStep) -> Tensor:
    """Mixes of part of a product's result; each token by its `own`, or all by the same."""
    whole = o.make(F32, channels + 5, step.tokens)
    x = whole.view(12, (channels, step.tokens), whole.strides[1:2])
    mix = o.make(F32, channels, step.tokens if own else 1, mixes)
    return ops.token_shift(x, mix, *_state(o, channels, step))


def _wkv(o: Operands, sizes: tuple[int, int, int], rule: str, step: CarriedStep) -> Tensor:
    """Decays as RWKV-7 bounds them, and rates between 0 and 1."""
    dim, key, heads = sizes
    tokens = step.tokens
    q, k, v = _parts(o, tokens, (key, heads), (key, heads), (dim, heads))
    g = o.put(F32, -o.rng.uniform(0.001, 0.6, (tokens, heads, key)))
    erased = rule == "erasing" and (
        o.make(F32, key, heads, tokens),
        o.put(F32, o.rng.uniform(0.0, 1.0, (tokens, heads, key))),
    )
    bonus = o.make(F32, key, heads) if rule == "with bonus" else None
    state = _state(o, dim * key * heads, step)
    return ops.wkv(q, k, v, g, *state, erased=erased or None, bonus=bonus, eps=1e-24)


def _gated(o: Operands, sizes: tuple[int, int, int, int], step: CarriedStep) -> Tensor:
    """With decays and steps as products leave them."""
    dim, key, heads, key_heads = sizes
    tokens = step.tokens
    q, k, v = _parts(o, tokens, (key, key_heads), (key, key_heads), (dim, heads))
    alpha, beta, dt = o.make(F32, heads, tokens), o.make(F32, heads, tokens), o.make(F32, heads)
    a = o.put(F32, -o.rng.uniform(0.05, 1.0, heads))
    g = ops.mul(ops.softplus(ops.add(alpha, dt)), a)
    state = _state(o, dim * key * heads, step)
    return ops.delta_net(q, k, v, g, ops.sigmoid(beta), *state, eps=1e-6, tiled=True)


def _stepped(
    o: Operands, sizes: tuple[int, int, int, int], step: CarriedStep, least: float
) -> Tensor:
    """With steps of time as a product leaves them, beside what else it made."""
    dim, size, heads, groups = sizes
    x, b, c, delta = _parts(
        o, step.tokens, (dim, heads), (size, groups), (size, groups), (heads, 1)
    )
    rows = delta.view(0, (heads, step.tokens), delta.strides[2:3])
    steps = ops.softplus(ops.add(rows, o.make(F32, heads)))
    steps = ops.clamp(steps, least, float("inf")) if least else steps
    a = o.put(F32, -o.rng.uniform(0.05, 1.0, (heads, 1)))
    state = _state(o, dim * size * heads, step)
    return ops.ssm_scan(x, steps, b, c, a, o.make(F32, heads), *state)


def _scan(o: Operands, sizes: tuple[int, int, int, int], step: CarriedStep) -> Tensor:
    dim, size, heads, groups = sizes
    x, b, c = _parts(o, step.tokens, (dim, heads), (size, groups), (size, groups))
    delta, a = _rates(o, step.tokens, heads, 1)
    return ops.ssm_scan(x, delta, b, c, a, o.make(F32, heads), *_state(o, dim * size * heads, step))


def _channels(o: Operands, heads: int, size: int, step: CarriedStep) -> Tensor:
    x, b, c = _parts(o, step.tokens, (1, heads), (size, 1), (size, 1))
    delta, a = _rates(o, step.tokens, heads, size)
    return ops.ssm_scan(x, delta, b, c, a, o.make(F32, heads), *_state(o, size * heads, step))


def _rates(o: Operands, tokens: int, heads: int, each: int) -> tuple[Tensor, Tensor]:
    """Steps of time, and rates of decay below 0."""
    return (
        o.put(F32, o.rng.uniform(0.01, 0.5, (tokens, heads))),
        o.put(F32, -o.rng.uniform(0.5, 4.0, (heads, each))),
    )
