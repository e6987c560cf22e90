"""Step 3.5 Flash, Step 3.7 Flash: experts behind dense layers, gated heads, bounded activations.

StepFun 2026; tensor names and keys by the GGUF spec. Windowed layers have heads and a base of their
own; in the others half of a head turns, by factors where the file has them. NeoX pairs. A bias
corrects the choice of experts, whose scores are sigmoids. The blocks behind the last layer, which
predict from its output before the norm, are left alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.rope import RopeParams
from engine.layers.spec import BlockSpec, GatedActivation
from engine.models.constants import Constant, rope_factors
from engine.models.decoder import PlainWeights
from engine.models.routed import RoutedDecoder
from engine.models.text import laguna
from engine.models.windowed import WindowedDecoder
from engine.weights.params import Meta, Range, of_layer

LIMIT = Range(0.5, 1e6, or_zero=True)


@dataclass(frozen=True, kw_only=True)
class Params(laguna.Params):
    """Hyperparameters by their GGUF keys; `limits` bound the activations of each layer's experts,
    `shared_limits` those that all tokens pass. 0 is none.
    """

    normalised = False

    limits: Annotated[tuple[float, ...], Meta("swiglu_clamp_exp", LIMIT, by_layer=True)] = (0.0,)
    shared_limits: Annotated[
        tuple[float, ...], Meta("swiglu_clamp_shexp", LIMIT, by_layer=True)
    ] = (0.0,)

    def constants(self) -> Sequence[Constant]:
        return [rope_factors(self.rope_dim)]

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if self.rope_dim % 4:
            return f"rope.dimension_count is {self.rope_dim}; expected a multiple of 4"
        return super().problem()


@dataclass(frozen=True)
class GatedHeadsAttention(laguna.SoftGatedAttention):
    """Heads are multiplied by a sigmoid of what entered."""

    def factors(self, x: Tensor, i: int) -> Tensor:
        return ops.sigmoid(self.gate(x, "attn_gate", i))


@dataclass(frozen=True)
class Weights(PlainWeights[PreNormBlock[GatedHeadsAttention, Experts | FeedForward]]):
    """The whole model's tensors."""


class Model(RoutedDecoder[Params, Weights], WindowedDecoder[Params, Weights]):
    """Layers differ in heads, in what they see, how they turn, bounds, and experts."""

    def rope(self, i: int) -> RopeParams:
        if self.params.is_windowed(i):
            return self.params.turned(i)
        return replace(self.turned, n_rot=self.turned.n_rot // 2)

    def spec(self, i: int) -> BlockSpec:
        spec, params = super().spec(i), self.params
        limits = (of_layer(params.shared_limits, i), of_layer(params.limits, i))
        gated, of_experts = (bounded(spec.gated, limit) for limit in limits)
        return replace(spec, gated=gated, gated_experts=of_experts)


def bounded(gated: GatedActivation, limit: float) -> GatedActivation:
    """SwiGLU whose two factors are within the limit: 0, as it is."""

    def activation(gate: Tensor, up: Tensor | None) -> Tensor:
        assert up is not None
        return ops.mul(*(ops.clamp(t, -limit, limit) for t in (ops.silu(gate), up)))

    return GatedActivation(activation, gated.name) if limit else gated
