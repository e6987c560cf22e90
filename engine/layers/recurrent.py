"""Mixers that carry a state over time: short convolutions, gated delta nets (Yang, Kautz &
Hatamizadeh 2025; Qwen3-Next, Qwen3.5), and selective state spaces: Mamba-2 (Dao & Gu 2024) and
Mamba (Gu & Dao 2023).
"""

from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.linear import Linear, RMSNorm, UnsuffixedNorm, heads_of, weightless
from engine.layers.spec import BlockSpec, RecurrenceSpec
from engine.layers.step import LayerCache, Pass
from engine.weights.bind import Name


@dataclass(frozen=True)
class Convolution:
    """weight [Kc, C], bias [C] or none: each channel's last Kc inputs, weighted."""

    weight: Annotated[Tensor, Name("weight")]
    bias: Annotated[Tensor | None, Name("bias")]

    def __call__(self, x: Tensor, i: int, p: Pass, silu: bool, name: str) -> Tensor:
        """x [C, T] -> [C, T] in layer i, which keeps the last Kc - 1 columns."""
        state = p.state(i).conv
        assert state is not None
        mixed = ops.causal_conv(x, self.weight, self.bias, state, p.state_at, silu=silu)
        return p.carry(mixed, state).named(name, i)


@dataclass(frozen=True)
class ShortConv:
    """out(c * conv(b * x)), b, c and x being parts of one product (Hasani et al. 2025, LFM2)."""

    into: Annotated[Linear, Name("shortconv.in_proj")]
    conv: Annotated[Convolution, Name("shortconv.conv")]
    out: Annotated[Linear, Name("shortconv.out_proj")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, block: BlockSpec, cache: LayerCache | None
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        parts = self.into(x, "shortconv.in_proj", i)
        b, c, given = ops.chunk_sections(parts, 0, [parts.shape[0] // 3] * 3)
        mixed = self.conv(ops.mul(b, given).named("shortconv.bx", i), i, p, False, "conv_out")
        return self.out(ops.mul(c, mixed).named("shortconv.y", i), "shortconv.out_proj", i)


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
    """Each head's state follows the keys, decays, and is normalised and gated."""

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


@dataclass(frozen=True)
class Mamba2:
    """Heads of a common decay each, in groups that share b and c; normalised per group behind the
    gate, where the file has a norm.
    """

    into: Annotated[Linear, Name("ssm_in")]
    conv: Annotated[Convolution, Name("ssm_conv1d")]
    dt: Annotated[Tensor, Name("ssm_dt.bias")]
    a: Annotated[Tensor, Name("ssm_a")]
    d: Annotated[Tensor, Name("ssm_d")]
    norm: Annotated[RMSNorm | None, Name("ssm_norm")]
    out: Annotated[Linear, Name("ssm_out")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, block: BlockSpec, cache: LayerCache | None
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        spec, state = block.recurrence, p.state(i).state
        assert spec is not None
        assert state is not None
        inner, width = spec.dim * spec.heads, spec.size * spec.groups
        whole = self.into(x, "ssm_in", i)
        z, mixed, delta = ops.chunk_sections(whole, 0, (inner, inner + 2 * width, spec.heads))
        mixed = self.conv(mixed, i, p, True, "conv_output_silu")
        given, b, c = ops.chunk_sections(mixed, 0, (inner, width, width))
        made = ops.ssm_scan(
            heads_of(given, spec.dim),
            self._steps(delta, i, spec.least_step),
            heads_of(b, spec.size),
            heads_of(c, spec.size),
            self.a.reshape(1, spec.heads),
            self.d.reshape(spec.heads),
            state,
            p.state_at,
        )
        y = ops.silu(z, p.carry(made, state).named("mamba2_y", i)).named("mamba2_y_gated", i)
        return self.out(self._normed(y, i, spec.groups, block.eps), "mamba_out", i)

    def _steps(self, delta: Tensor, i: int, least: float) -> Tensor:
        """Steps of time [H, T] from the product's result: above 0, at least `least`."""
        steps = ops.softplus(ops.add(delta, self.dt)).named("dt", i)
        return ops.clamp(steps, least, float("inf")) if least else steps

    def _normed(self, y: Tensor, i: int, groups: int, eps: float) -> Tensor:
        if self.norm is None:
            return y
        if groups == 1:
            weight = RMSNorm(self.norm.weight.reshape(y.shape[0]))
            return weight(y, eps, "mamba2_normed", i)
        each = weightless(y.reshape(y.shape[0] // groups, groups, y.shape[1]), eps, "")
        return ops.mul(each, self.norm.weight).named("mamba2_normed", i).reshape(*y.dims)


@dataclass(frozen=True)
class Mamba:
    """Each channel has decays of its own; b, c and its steps come of the convolution."""

    into: Annotated[Linear, Name("ssm_in")]
    conv: Annotated[Convolution, Name("ssm_conv1d")]
    rates: Annotated[Linear, Name("ssm_x")]
    dt: Annotated[Linear, Name("ssm_dt")]
    a: Annotated[Tensor, Name("ssm_a")]
    d: Annotated[Tensor, Name("ssm_d")]
    out: Annotated[Linear, Name("ssm_out")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, block: BlockSpec, cache: LayerCache | None
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        spec, state = block.recurrence, p.state(i).state
        assert spec is not None
        assert state is not None
        given, z = self.entering(self.into(x, "ssm_in", i), spec)
        given = self.conv(given, i, p, True, "conv_output_silu")
        delta, b, c = self.parted(self.rates(given, "ssm_x", i), spec)
        delta, b, c = self.normed(delta, b, c, i, block)
        steps = ops.softplus(self.dt(delta, "dt", i))
        made = ops.ssm_scan(
            heads_of(given, spec.dim),
            steps,
            heads_of(b, spec.size),
            heads_of(c, spec.size),
            self.a.reshape(-1, spec.heads),
            self.d,
            state,
            p.state_at,
        )
        y = p.carry(made, state).named("mamba_y", i)
        return self.out(ops.silu(z, y).named("mamba_y_gated", i), "mamba_out", i)

    def entering(self, whole: Tensor, spec: RecurrenceSpec) -> tuple[Tensor, Tensor]:
        """Split a product [2C, T] into the convolution's input and the gate, [C, T] each."""
        given, z = ops.chunk_sections(whole, 0, [spec.heads] * 2)
        return given, z

    def parted(self, rates: Tensor, spec: RecurrenceSpec) -> tuple[Tensor, Tensor, Tensor]:
        """Split a product [R + 2N, T] into delta [R, T], b and c [N, T]."""
        rank = rates.shape[0] - 2 * spec.size
        delta, b, c = ops.chunk_sections(rates, 0, (rank, spec.size, spec.size))
        return delta, b, c

    def normed(
        self, delta: Tensor, b: Tensor, c: Tensor, i: int, block: BlockSpec
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Divide delta [R, T], of which steps are made, b and c [N, T] in layer i by their root
        mean squares where files say so (FalconMamba).
        """
        if block.recurrence is None or not block.recurrence.normed:
            return delta, b, c
        delta, b, c = (weightless(part, block.eps, "") for part in (delta, b, c))
        return delta, b, c


@dataclass(frozen=True)
class NormedMamba(Mamba):
    """The same with weights for these three norms (Lieber et al. 2024, Jamba)."""

    dt_norm: Annotated[RMSNorm, Name("ssm_dt_norm")]
    b_norm: Annotated[RMSNorm, Name("ssm_b_norm")]
    c_norm: Annotated[RMSNorm, Name("ssm_c_norm")]

    def normed(
        self, delta: Tensor, b: Tensor, c: Tensor, i: int, block: BlockSpec
    ) -> tuple[Tensor, Tensor, Tensor]:
        return (
            self.dt_norm(delta, block.eps, "dt_norm", i),
            self.b_norm(b, block.eps, "b_norm", i),
            self.c_norm(c, block.eps, "c_norm", i),
        )


@dataclass(frozen=True)
class HeadMamba(NormedMamba):
    """The same whose heads of several channels have one decay each (PLaMo 2). Products have each
    head's gate before its channels, and b, c, then delta.
    """

    dt_norm: Annotated[UnsuffixedNorm, Name("ssm_dt_norm")]
    b_norm: Annotated[UnsuffixedNorm, Name("ssm_b_norm")]
    c_norm: Annotated[UnsuffixedNorm, Name("ssm_c_norm")]

    def entering(self, whole: Tensor, spec: RecurrenceSpec) -> tuple[Tensor, Tensor]:
        channels, n = spec.dim * spec.heads, whole.shape[1]
        heads = whole.reshape(2 * spec.dim, spec.heads, n)
        z, given = ops.chunk_sections(heads, 0, [spec.dim] * 2)
        return ops.contiguous(given, channels, n), ops.contiguous(z, channels, n)

    def parted(self, rates: Tensor, spec: RecurrenceSpec) -> tuple[Tensor, Tensor, Tensor]:
        rank = rates.shape[0] - 2 * spec.size
        b, c, delta = ops.chunk_sections(rates, 0, (spec.size, spec.size, rank))
        return delta, b, c
