"""Refact 1.6B: scores that fall with the distance (ALiBi), one head of keys and values, SwiGLU.

Small Magellanic Cloud AI 2023; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.rope import RopeParams
from engine.models.decoder import ALIBI, Decoder, DecoderParams, PlainWeights
from engine.models.text.bloom import MOST
from engine.weights.params import Meta


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    falls: ClassVar[bool] = True
    alibi: Annotated[float, Meta("attention.max_alibi_bias", ALIBI)] = MOST


Weights = PlainWeights[PreNormBlock[SelfAttention, FeedForward]]


class Model(Decoder[Params, Weights]):
    def rope(self, i: int) -> RopeParams | None:
        return None
