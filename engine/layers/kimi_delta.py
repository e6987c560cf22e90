"""Kimi Delta Attention: the gated delta rule with a decay of each channel (Kimi Team 2025)."""

from dataclasses import dataclass
from functools import reduce
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.linear import Linear, RMSNorm, heads_of
from engine.layers.recurrent import LENGTH_EPS
from engine.layers.spec import BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.weights.bind import Name


@dataclass(frozen=True)
class KimiDeltaNet:
    """Queries, keys and values pass a convolution each; decays and gates are of low rank."""

    q: Annotated[Linear, Name("attn_q")]
    k: Annotated[Linear, Name("attn_k")]
    v: Annotated[Linear, Name("attn_v")]
    q_conv: Annotated[Tensor, Name("ssm_conv1d_q.weight")]
    k_conv: Annotated[Tensor, Name("ssm_conv1d_k.weight")]
    v_conv: Annotated[Tensor, Name("ssm_conv1d_v.weight")]
    decay_a: Annotated[Linear, Name("ssm_f_a")]
    decay_b: Annotated[Linear, Name("ssm_f_b")]
    beta: Annotated[Linear, Name("ssm_beta")]
    dt: Annotated[Tensor, Name("ssm_dt.bias")]
    a: Annotated[Tensor, Name("ssm_a")]
    gate_a: Annotated[Linear, Name("ssm_g_a")]
    gate_b: Annotated[Linear, Name("ssm_g_b")]
    norm: Annotated[RMSNorm, Name("ssm_norm")]
    out: Annotated[Linear, Name("attn_output")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, block: BlockSpec, cache: LayerCache | None
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        spec, kept = block.recurrence, p.state(i)
        assert spec is not None
        assert kept.conv is not None
        assert kept.state is not None
        dim, heads, n = spec.dim, spec.heads, x.shape[1]
        parts = (self.q(x, "Qcur", i), self.k(x, "Kcur", i), self.v(x, "Vcur", i))
        joint = reduce(lambda a, b: ops.concat(a, b, 0), parts)
        taps = [w.reshape(w.shape[0], dim * heads) for w in (self.q_conv, self.k_conv, self.v_conv)]
        weight = reduce(lambda a, b: ops.concat(a, b, 1), taps)
        mixed = ops.causal_conv(joint, weight, None, kept.conv, p.state_at, silu=True)
        mixed = p.carry(mixed, kept.conv).named("conv_output_silu", i)
        q, k, v = (heads_of(t, dim) for t in ops.chunk_sections(mixed, 0, [dim * heads] * 3))
        raw = ops.add(self.decay_b(self.decay_a(x, "f_a", i), "f_b", i), self.dt)
        by_head = ops.softplus(raw).reshape(dim, heads, n)
        decay = ops.mul(by_head, self.a.reshape(1, heads)).named("gate", i)
        step = ops.sigmoid(self.beta(x, "beta", i)).named("beta_sigmoid", i)
        made = ops.delta_net(
            q, k, v, decay, step, kept.state, p.state_at, eps=LENGTH_EPS, tiled=False
        )
        o = p.carry(made, kept.state).named("attn_output", i).reshape(dim, heads, n)
        normed = self.norm(o, block.eps, "attn_output_normed", i).reshape(dim * heads, n)
        gate = ops.sigmoid(self.gate_b(self.gate_a(x, "g_a", i), "g_b", i))
        return self.out(ops.mul(normed, gate).named("final_output", i), "linear_attn_out", i)
