"""Nomic BERT with experts: nomic-embed-text 2, in every second layer, none of them gated.

Nussbaum & Duderstadt 2025; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.attention import SelfAttention
from engine.layers.blocks import AddNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import PlainFeedForward
from engine.layers.spec import GELU_ERF, BlockSpec
from engine.models.routed import RoutedParams
from engine.models.text import bert
from engine.weights.params import EPSILON, Meta


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams):
    normalised = False

    eps: Annotated[float, Meta("attention.layer_norm_epsilon", EPSILON)]


Block = AddNormBlock[SelfAttention, Experts | PlainFeedForward]
Weights = bert.SegmentWeights[Block]


class Model(bert.SegmentEncoder[Params, Block]):
    """Layers with experts have their tensors."""

    gated = GELU_ERF

    def spec(self, i: int) -> BlockSpec:
        params = self.params
        return BlockSpec(self.attention(i), self.gated, params.eps, route=params.route(i))
