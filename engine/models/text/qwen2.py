"""Qwen2, 2.5, Seed-OSS, openPangu Embedded, also the text of InternVL: biases, NeoX pairs.

Qwen Team 2024; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass

from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.rope import RopeParams
from engine.models.decoder import Decoder, DecoderParams, PlainWeights


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    def turned(self) -> RopeParams:
        """How queries and keys turn."""
        return self.rope(neox=True)


Weights = PlainWeights[PreNormBlock[SelfAttention, FeedForward]]


class Model(Decoder[Params, Weights]):
    def rope(self, i: int) -> RopeParams:
        return self.params.turned()
