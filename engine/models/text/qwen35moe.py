"""Qwen3.5 and 3.6 with experts, 35B-A3B and larger: Qwen3.5 whose tokens meet a few experts.

Qwen Team 2026; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass, replace

from engine.layers.attention import GatedQueryAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.recurrent import GatedDeltaNet, SplitGates
from engine.layers.spec import BlockSpec
from engine.models.decoder import PlainWeights
from engine.models.routed import RoutedParams
from engine.models.text import qwen35
from engine.models.text.qwen35 import DeltaDecoder


@dataclass(frozen=True, kw_only=True)
class Params(qwen35.Params, RoutedParams):
    """Hyperparameters by their GGUF keys."""


Weights = PlainWeights[
    PreNormBlock[GatedQueryAttention, Experts | FeedForward]
    | PreNormBlock[GatedDeltaNet[SplitGates], Experts | FeedForward]
]


class Model(DeltaDecoder[Params, Weights]):
    """Layers differ in what mixes their tokens."""

    def spec(self, i: int) -> BlockSpec:
        return replace(super().spec(i), route=self.params.route(i))
