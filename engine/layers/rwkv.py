"""Time mixes and channel mixes of RWKV-7 (Peng et al. 2025) and RWKV-6 (Peng et al. 2024), which
read each token with the last.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Generic, TypeVar

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.blocks import joined, pruned
from engine.layers.linear import LayerNorm, Linear
from engine.layers.spec import BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.weights.bind import Name

GROUP_EPS = 64e-5
"""Of the norm of each head's result."""
LENGTH_EPS = 1e-24
"""What joins the sum of squares of what is erased before the root."""
FASTEST = -0.606531
"""The logarithm of the fastest decay: -1 / sqrt(e)."""


@dataclass(frozen=True)
class TimeMix:
    """Each head's state forgets by channel, erases what a key stood for, and learns a new value.

    Values are mixed with those of the first layer. Where the file has no gates or no norm, there is
    none (ARWKV).
    """

    mix: Annotated[Tensor, Name("time_mix_lerp_fused.weight")]
    r: Annotated[Linear, Name("time_mix_receptance")]
    k: Annotated[Linear, Name("time_mix_key")]
    v: Annotated[Linear, Name("time_mix_value")]
    w0: Annotated[Tensor, Name("time_mix_w0.weight")]
    w1: Annotated[Linear, Name("time_mix_w1")]
    w2: Annotated[Linear, Name("time_mix_w2")]
    a0: Annotated[Tensor, Name("time_mix_a0.weight")]
    a1: Annotated[Linear, Name("time_mix_a1")]
    a2: Annotated[Linear, Name("time_mix_a2")]
    v0: Annotated[Tensor | None, Name("time_mix_v0.weight")]
    v1: Annotated[Linear | None, Name("time_mix_v1")]
    v2: Annotated[Linear | None, Name("time_mix_v2")]
    g1: Annotated[Linear | None, Name("time_mix_g1")]
    g2: Annotated[Linear | None, Name("time_mix_g2")]
    k_k: Annotated[Tensor, Name("time_mix_k_k.weight")]
    k_a: Annotated[Tensor, Name("time_mix_k_a.weight")]
    r_k: Annotated[Tensor, Name("time_mix_r_k.weight")]
    norm: Annotated[LayerNorm | None, Name("time_mix_ln")]
    out: Annotated[Linear, Name("time_mix_output")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, block: BlockSpec, cache: LayerCache | None
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        spec, kept = block.recurrence, p.state(i)
        assert spec is not None
        assert kept.conv is not None
        assert kept.state is not None
        xr, xw, xk, xv, xa, *xg = p.shifted(x, self.mix, kept.conv)
        r, k = self.r(xr, "time_mix_r", i), self.k(xk, "time_mix_k", i)
        lora = self.w2(ops.tanh(self.w1(xw, "time_mix_w1", i)), "time_mix_w2", i)
        decay = ops.scale(ops.sigmoid(ops.add(lora, self.w0)), FASTEST).named("time_mix_decay", i)
        lora = self.a2(self.a1(xa, "time_mix_a1", i), "time_mix_a2", i)
        rate = ops.sigmoid(ops.add(lora, self.a0)).named("time_mix_rate", i)
        erased = ops.mul(k, self.k_k)
        # k (1 + (a - 1) k_a)
        weighed = ops.mul(k, self.k_a)
        k = ops.add(k, ops.sub(ops.mul(rate, weighed), weighed)).named("time_mix_k_weighed", i)
        v = self._values(xv, i, p)
        each = (spec.size, spec.heads, x.shape[1])
        r, k, v, decay, rate, erased = (t.reshape(*each) for t in (r, k, v, decay, rate, erased))
        made = ops.wkv(
            r, k, v, decay, kept.state, p.state_at, erased=(erased, rate), eps=LENGTH_EPS
        )
        y = by_head(p.carry(made, kept.state).named("wkv", i).reshape(*each), self.norm)
        reads = ops.mul(ops.mul(k, r), self.r_k.reshape(*each[:2]))
        y = ops.add(y, ops.mul(v, ops.sum_rows(reads))).reshape(*x.dims).named("wkv_read", i)
        if xg and self.g1 is not None and self.g2 is not None:
            gate = self.g2(ops.sigmoid(self.g1(xg[0], "time_mix_g1", i)), "time_mix_g2", i)
            y = ops.mul(y, gate).named("wkv_gated", i)
        return self.out(y, "time_mix_out", i)

    def _values(self, x: Tensor, i: int, p: Pass) -> Tensor:
        """Values [E, T] of x, on the way to those of the first layer as far as each says."""
        v = self.v(x, "time_mix_v", i)
        if p.first_values is None:
            p.first_values = v
            return v
        assert self.v0 is not None
        assert self.v1 is not None
        assert self.v2 is not None
        lora = self.v2(self.v1(x, "time_mix_v1", i), "time_mix_v2", i)
        share = ops.sigmoid(ops.add(lora, self.v0))
        return ops.add(v, ops.mul(ops.sub(p.first_values, v), share)).named("time_mix_v_mixed", i)


def by_head(y: Tensor, norm: LayerNorm | None) -> Tensor:
    """y [D, H, T], each head normalised where there is a norm."""
    if norm is None:
        return y
    y = ops.mul(ops.layer_norm(y, None, None, GROUP_EPS), norm.weight.reshape(*y.shape[:2]))
    return y if norm.bias is None else ops.add(y, norm.bias.reshape(*y.shape[:2]))


@dataclass(frozen=True)
class JoinedMixes:
    """How much of the last token each projection reads, of all in one tensor."""

    all: Annotated[Tensor, Name("time_mix_lerp_fused.weight")]

    def __call__(self) -> Tensor:
        """[E, 1, 5], in the order of `TimeMix6`."""
        return self.all.reshape(self.all.shape[0], 1, 5)


@dataclass(frozen=True)
class SplitMixes:
    """The same of early files, in a tensor each."""

    w: Annotated[Tensor, Name("time_mix_lerp_w.weight")]
    k: Annotated[Tensor, Name("time_mix_lerp_k.weight")]
    v: Annotated[Tensor, Name("time_mix_lerp_v.weight")]
    r: Annotated[Tensor, Name("time_mix_lerp_r.weight")]
    g: Annotated[Tensor, Name("time_mix_lerp_g.weight")]

    def __call__(self) -> Tensor:
        """[E, 1, 5], in the order of `TimeMix6`."""
        each = [t.reshape(t.nelements, 1, 1) for t in (self.w, self.k, self.v, self.r, self.g)]
        return reduce(lambda a, b: ops.concat(a, b, 2), each)


@dataclass(frozen=True)
class TimeMix6:
    """Each head's state forgets by channel and learns a value for a key; how much of the last token
    is read depends on both. Without `first` (RWKV6-Qwen2) a key is as strong as its channel
    forgets, heads may share keys, gates are sigmoids, and no head is normalised.
    """

    shift: Annotated[Tensor, Name("time_mix_lerp_x.weight")]
    mixes: JoinedMixes | SplitMixes
    w1: Annotated[Linear, Name("time_mix_w1")]
    w2: Annotated[Tensor, Name("time_mix_w2.weight")]
    decay: Annotated[Tensor, Name("time_mix_decay.weight")]
    decay_w1: Annotated[Linear, Name("time_mix_decay_w1")]
    decay_w2: Annotated[Linear, Name("time_mix_decay_w2")]
    first: Annotated[Tensor | None, Name("time_mix_first.weight")]
    r: Annotated[Linear, Name("time_mix_receptance")]
    k: Annotated[Linear, Name("time_mix_key")]
    v: Annotated[Linear, Name("time_mix_value")]
    g: Annotated[Linear, Name("time_mix_gate")]
    norm: Annotated[LayerNorm | None, Name("time_mix_ln")]
    out: Annotated[Linear, Name("time_mix_output")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, block: BlockSpec, cache: LayerCache | None
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        spec, kept = block.recurrence, p.state(i)
        assert spec is not None
        assert kept.conv is not None
        assert kept.state is not None
        size, heads, n = spec.size, spec.heads, x.shape[1]
        xw, xk, xv, xr, xg = p.shifted(x, self._mix(x, i, p, kept.conv), kept.conv)
        r, k, v, g = self.r(xr, "", i), self.k(xk, "", i), self.v(xv, "", i), self.g(xg, "", i)
        lora = self.decay_w2(ops.tanh(self.decay_w1(xw, "time_mix_decay_w1", i)), "", i)
        decay = ops.neg(ops.exp(ops.add(lora, self.decay))).named("time_mix_decay", i)
        k, v = (self._each(t, size, heads) for t in (k, v))
        r, decay = r.reshape(size, heads, n), decay.reshape(size, heads, n)
        if self.first is None:
            k = ops.sub(k, ops.mul(k, ops.exp(decay)))
            r = ops.scale(r, size**-0.5)
        bonus = self.first and self.first.reshape(size, heads)
        made = ops.wkv(r, k, v, decay, kept.state, p.state_at, bonus=bonus)
        y = by_head(p.carry(made, kept.state).named("wkv", i).reshape(size, heads, n), self.norm)
        y = y.reshape(*x.dims)
        y = ops.mul(y, ops.sigmoid(g)) if self.first is None else ops.silu(g, y)
        return self.out(y.named("wkv_gated", i), "time_mix_out", i)

    def _mix(self, x: Tensor, i: int, p: Pass, leaf: Tensor) -> Tensor:
        """How much of the last token each of w, k, v, r and g reads: [E, T, 5] of x [E, T]."""
        (both,) = p.shifted(x, self.shift, leaf, keeps=False)
        lora = ops.tanh(self.w1(both, "time_mix_w1", i))
        planes = lora.reshape(lora.shape[0] // 5, 5, x.shape[1]).permute(0, 2, 1, 3)
        mixed = ops.matmul(self.w2, ops.contiguous(planes))
        return ops.add(mixed, self.mixes())

    def _each(self, t: Tensor, size: int, heads: int) -> Tensor:
        """Keys or values [D * K, T] as [D, H, T]."""
        rows, n = t.shape[:2]
        if rows != size * heads:
            apart = t.reshape(size, 1, rows // size * n)
            t = ops.repeat(apart, 1, size * heads // rows)
        return t.reshape(size, heads, n)


@dataclass(frozen=True)
class ChannelMix:
    """value(relu(key(x))^2), x being mixed with the token before."""

    mix: Annotated[Tensor, Name("channel_mix_lerp_k.weight")]
    key: Annotated[Linear, Name("channel_mix_key")]
    value: Annotated[Linear, Name("channel_mix_value")]

    def shifted(self, x: Tensor, p: Pass, leaf: Tensor) -> list[Tensor]:
        """x [E, T] as it is read."""
        return p.shifted(x, self.mix, leaf)

    def __call__(self, xs: Sequence[Tensor], i: int) -> Tensor:
        """Result [E, T] in layer i of what `shifted` gave."""
        k = ops.sqr(ops.relu(self.key(xs[0], "channel_mix_key", i)))
        return self.value(k.named("channel_mix_relu_sqr", i), "ffn_out", i)


@dataclass(frozen=True)
class GatedChannelMix(ChannelMix):
    """The same, gated by a sigmoid of another mix."""

    gate_mix: Annotated[Tensor, Name("channel_mix_lerp_r.weight")]
    gate: Annotated[Linear, Name("channel_mix_receptance")]

    def shifted(self, x: Tensor, p: Pass, leaf: Tensor) -> list[Tensor]:
        return [*super().shifted(x, p, leaf), *p.shifted(x, self.gate_mix, leaf, keeps=False)]

    def __call__(self, xs: Sequence[Tensor], i: int) -> Tensor:
        gate = ops.sigmoid(self.gate(xs[1], "channel_mix_r", i))
        return ops.mul(super().__call__(xs, i), gate).named("ffn_gated", i)


M = TypeVar("M", bound=TimeMix | TimeMix6)
C = TypeVar("C", bound=ChannelMix)


@dataclass(frozen=True)
class RwkvBlock(Generic[M, C]):
    """x += T(norm x); x += C(norm x), which reads the token before as well."""

    attn: M
    ffn: C
    attn_norm: Annotated[LayerNorm, Name("attn_norm")]
    ffn_norm: Annotated[LayerNorm, Name("attn_norm_2")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i; in the `last` one only the wanted [E, n_outputs]."""
        h = self.attn(self.attn_norm(x, spec.eps, "attn_norm", i), i, p, spec, cache)
        x = joined(h, x, i, p, spec, "attention", "ffn_inp")
        fed = p.state(i).fed
        assert fed is not None
        mixed = self.ffn.shifted(self.ffn_norm(x, spec.eps, "ffn_norm", i), p, fed)
        x, *mixed = pruned(p, last, x, *mixed)
        return joined(self.ffn(mixed, i), x, i, p, spec, "feed_forward", "l_out")
