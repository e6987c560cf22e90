"""EXAONE 3.0, 3.5 and Deep: Llama with NeoX pairs.

LG AI Research 2024; tensor names and keys by the GGUF spec.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.models.constants import Constant, rope_factors
from engine.models.decoder import Decoder, DecoderParams, PlainWeights


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    def constants(self) -> Sequence[Constant]:
        return [rope_factors(self.rope_dim)]


Weights = PlainWeights[PreNormBlock[SelfAttention, FeedForward]]


class Model(Decoder[Params, Weights]):
    """All layers are alike."""
