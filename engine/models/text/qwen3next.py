"""Qwen3-Next, Qwen3-Coder-Next: Qwen3.5 with experts, whose delta nets have one matrix of gates.

Qwen Team 2025; tensor names and keys by the GGUF spec. Neighbouring heads of values share one of
keys.
"""

from dataclasses import replace

from engine.layers.attention import GatedQueryAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.recurrent import GatedDeltaNet, JoinedGates
from engine.layers.spec import BlockSpec
from engine.models.decoder import PlainWeights
from engine.models.text.qwen35 import DeltaDecoder
from engine.models.text.qwen35moe import Params

__all__ = ["Model", "Params", "Weights"]


Weights = PlainWeights[
    PreNormBlock[GatedQueryAttention, Experts | FeedForward]
    | PreNormBlock[GatedDeltaNet[JoinedGates], Experts | FeedForward]
]


class Model(DeltaDecoder[Params, Weights]):
    """Layers differ in what mixes their tokens."""

    tiled = False

    def spec(self, i: int) -> BlockSpec:
        return replace(super().spec(i), route=self.params.route(i))
