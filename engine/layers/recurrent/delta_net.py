"""Gated delta nets (Yang, Kautz & Hatamizadeh 2025), as in Qwen3-Next and Qwen3.5."""

from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.linear import Linear, RMSNorm
from engine.layers.recurrent.short_conv import Convolution, heads_of
from engine.layers.spec import BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.weights.bind import Name

LENGTH_EPS = 1e-6
"""What joins the sum of squares of queries and keys before the root."""


@dataclass(frozen=True)
class SplitGates:
    """A matrix each for the heads' steps and for their decays."""

    beta: Annotated[Linear, Name("ssm_beta")]
    alpha: Annotated[Linear, Name("ssm_alpha")]

    def __call__(self, x: Tensor, i: int, groups: int) -> tuple[Tensor, Tensor]:
        """Project x [E, T] to [Hv, 1, T] each."""
        beta, alpha = self.beta(x, "beta", i), self.alpha(x, "alpha", i)
        shape = (beta.shape[0], 1, x.shape[1])
        return beta.reshape(*shape), alpha.reshape(*shape)


@dataclass(frozen=True)
class JoinedGates:
    """One matrix; for each head of keys first the steps of its heads, then their decays."""

    both: Annotated[Linear, Name("ssm_ba")]

    def __call__(self, x: Tensor, i: int, groups: int) -> tuple[Tensor, Tensor]:
        """Project x [E, T] to [Hv/Hk, Hk, T] each."""
        both = self.both(x, "ba", i)
        each = both.shape[0] // (2 * groups)
        beta, alpha = ops.chunk_sections(both.reshape(2 * each, groups, x.shape[1]), 0, [each] * 2)
        return beta, alpha


G = TypeVar("G", bound=SplitGates | JoinedGates)


@dataclass(frozen=True)
class GatedDeltaNet(Generic[G]):
    """Each head's state turns to what keys ask for, decays, and is normalised and gated."""

    qkv: Annotated[Linear, Name("attn_qkv")]
    gate: Annotated[Linear, Name("attn_gate")]
    gates: G
    conv: Annotated[Convolution, Name("ssm_conv1d")]
    dt: Annotated[Tensor, Name("ssm_dt.bias", alt="ssm_dt")]
    a: Annotated[Tensor, Name("ssm_a")]
    norm: Annotated[RMSNorm, Name("ssm_norm")]
    out: Annotated[Linear, Name("ssm_out")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, block: BlockSpec, cache: LayerCache | None
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        spec, state = block.recurrence, p.state(i).state
        assert spec is not None
        assert state is not None
        n = x.shape[1]
        qkv = self.qkv(x, "linear_attn_qkv_mixed", i)
        z = self.gate(x, "z", i)
        mixed = self.conv(qkv, i, p, True, "conv_output_silu")
        keys, values = spec.size * spec.groups, spec.dim * spec.heads
        parts = ops.chunk_sections(mixed, 0, (keys, keys, values))
        q, k = (heads_of(part, spec.size) for part in parts[:2])
        g, beta = self._rates(x, i, spec.groups)
        v = heads_of(parts[2], spec.dim)
        made = ops.delta_net(q, k, v, g, beta, state, p.state_at, eps=LENGTH_EPS, tiled=spec.tiled)
        o = p.carry(made, state).named("attn_output", i).reshape(spec.dim, spec.heads, n)
        normed = self.norm(o, block.eps, "attn_output_normed", i).reshape(values, n)
        gated = ops.silu(z, normed).named("final_output", i)
        return self.out(gated, "linear_attn_out", i)

    def _rates(self, x: Tensor, i: int, groups: int) -> tuple[Tensor, Tensor]:
        """Rates for x [E, T]: the logarithm of each head's decay, and its step size: [Hv, T]
        each.
        """
        beta, alpha = self.gates(x, i, groups)
        each, count, n = alpha.shape[:3]
        dt, a = self.dt.reshape(each, count), self.a.reshape(each, count)
        decay = ops.mul(ops.softplus(ops.add(alpha, dt)), a).named("gate", i)
        step = ops.sigmoid(beta).named("beta_sigmoid", i)
        return decay.reshape(each * count, n), step.reshape(each * count, n)
