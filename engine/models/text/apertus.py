"""Apertus: norms of queries and keys per head, a feed-forward of xIELU without a gate.

Swiss AI 2025; tensor names and keys by the GGUF spec. xIELU (Huang & Schlag 2024) is a parabola
above zero and an exponential below, with numbers of each layer. Rope pairs are NeoX's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log1p
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import NormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import PlainFeedForward
from engine.layers.spec import BlockSpec, GatedActivation
from engine.models.constants import Constant, rope_factors
from engine.models.decoder import Decoder, DecoderParams, PlainWeights
from engine.weights.params import Meta, Range, of_layer

XIELU = Range(-30, 30)


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    """Hyperparameters by their GGUF keys; `above` and `below` are numbers whose softplus counts.

    The bound `xielu.eps` on what is exponentiated is left alone: it is closer to zero than a
    millionth, and so is what it changes.
    """

    above: Annotated[tuple[float, ...], Meta("xielu.alpha_p", XIELU, by_layer=True)]
    below: Annotated[tuple[float, ...], Meta("xielu.alpha_n", XIELU, by_layer=True)]
    slope: Annotated[tuple[float, ...], Meta("xielu.beta", XIELU, by_layer=True)]

    def constants(self) -> Sequence[Constant]:
        return [rope_factors(self.rope_dim)]

    def activation(self, i: int) -> GatedActivation:
        """Layer i's."""
        slope = of_layer(self.slope, i)
        above = log1p(exp(of_layer(self.above, i)))
        below = slope + log1p(exp(of_layer(self.below, i)))

        def xielu(x: Tensor, up: Tensor | None) -> Tensor:
            assert up is None
            return ops.xielu(x, above, below, slope)

        return GatedActivation(xielu, "ffn_xielu")


Weights = PlainWeights[PreNormBlock[NormedAttention, PlainFeedForward]]


class Model(Decoder[Params, Weights]):
    """Each layer has an activation of its own."""

    def spec(self, i: int) -> BlockSpec:
        return replace(super().spec(i), gated=self.params.activation(i))
