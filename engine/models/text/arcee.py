"""Arcee AFM-4.5B: Llama with a feed-forward of squared ReLUs, which has no gate.

Arcee AI 2025; tensor names and keys by the GGUF spec. Rope pairs are (2i, 2i+1): the converter
permutes q and k.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import PlainFeedForward
from engine.layers.spec import RELU_SQR
from engine.models.constants import Constant, rope_factors
from engine.models.decoder import Decoder, DecoderParams, PlainWeights


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    def constants(self) -> Sequence[Constant]:
        return [rope_factors(self.rope_dim)]


Weights = PlainWeights[PreNormBlock[SelfAttention, PlainFeedForward]]


class Model(Decoder[Params, Weights]):
    neox = False

    gated = RELU_SQR
