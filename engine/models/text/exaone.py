"""EXAONE 3.0, 3.5 and Deep: Llama with NeoX pairs.

LG AI Research 2024; tensor names and keys by the GGUF spec.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.rope import RopeParams
from engine.models.constants import Constant, factors_by_pair, rope_factors
from engine.models.decoder import Decoder, DecoderParams, PlainWeights


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    def constants(self) -> Sequence[Constant]:
        return [rope_factors(self.rope_dim)]


Weights = PlainWeights[PreNormBlock[SelfAttention, FeedForward]]


class Model(Decoder[Params, Weights]):
    @cached_property
    def turned(self) -> RopeParams:
        """By factors where the file has them."""
        return self.params.rope(neox=True, factors=factors_by_pair(self.constants))

    def rope(self, i: int) -> RopeParams:
        return self.turned
