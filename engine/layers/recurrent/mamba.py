"""Selective state spaces: Mamba-2 (Dao & Gu 2024) and Mamba (Gu & Dao 2023)."""

from dataclasses import dataclass
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.linear import Linear, RMSNorm, weightless
from engine.layers.recurrent.short_conv import Convolution, heads_of
from engine.layers.spec import BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.weights.bind import Name


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
        given, z = ops.chunk_sections(self.into(x, "ssm_in", i), 0, [spec.heads] * 2)
        given = self.conv(given, i, p, True, "conv_output_silu")
        rates = self.rates(given, "ssm_x", i)
        rank = rates.shape[0] - 2 * spec.size
        delta, b, c = ops.chunk_sections(rates, 0, (rank, spec.size, spec.size))
        if spec.normed:
            delta, b, c = (weightless(part, block.eps, "") for part in (delta, b, c))
        steps = ops.softplus(self.dt(delta, "dt", i))
        made = ops.ssm_scan(
            heads_of(given, 1),
            steps,
            heads_of(b, spec.size),
            heads_of(c, spec.size),
            self.a,
            self.d,
            state,
            p.state_at,
        )
        y = p.carry(made, state).named("mamba_y", i)
        return self.out(ops.silu(z, y).named("mamba_y_gated", i), "mamba_out", i)
