"""RWKV-7's time mix and channel mix (Peng et al. 2025), which read each token with the last."""

from dataclasses import dataclass
from typing import Annotated

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
        y = self._normed(p.carry(made, kept.state).named("wkv", i).reshape(*each))
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

    def _normed(self, y: Tensor) -> Tensor:
        """y [D, H, T], each head normalised where there is a norm."""
        if self.norm is None:
            return y
        y = ops.mul(
            ops.layer_norm(y, None, None, GROUP_EPS), self.norm.weight.reshape(*y.shape[:2])
        )
        bias = self.norm.bias
        return y if bias is None else ops.add(y, bias.reshape(*y.shape[:2]))


@dataclass(frozen=True)
class ChannelMix:
    """value(relu(key(x))^2), x being mixed with the token before."""

    mix: Annotated[Tensor, Name("channel_mix_lerp_k.weight")]
    key: Annotated[Linear, Name("channel_mix_key")]
    value: Annotated[Linear, Name("channel_mix_value")]

    def __call__(self, x: Tensor, i: int) -> Tensor:
        """x [E, T], as mixed, -> [E, T] in layer i."""
        k = ops.sqr(ops.relu(self.key(x, "channel_mix_key", i))).named("channel_mix_relu_sqr", i)
        return self.value(k, "ffn_out", i)


@dataclass(frozen=True)
class RwkvBlock:
    """x += T(norm x); x += C(norm x), which reads the token before as well."""

    attn: TimeMix
    ffn: ChannelMix
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
        (h,) = p.shifted(self.ffn_norm(x, spec.eps, "ffn_norm", i), self.ffn.mix, fed)
        h, x = pruned(p, last, h, x)
        return joined(self.ffn(h, i), x, i, p, spec, "feed_forward", "l_out")
