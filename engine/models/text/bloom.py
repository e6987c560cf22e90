"""BLOOM, BLOOMZ: scores that fall with the distance (ALiBi), LayerNorms, biases everywhere.

BigScience 2022; tensor names and keys by the GGUF spec, whose converter puts queries, keys and
values of all heads side by side. Embeddings are normalised, and the output is tied to them.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import LayerNormBlock
from engine.layers.feed_forward import PlainFeedForward
from engine.layers.linear import LayerNorm
from engine.layers.rope import RopeParams
from engine.layers.spec import GELU
from engine.layers.step import Pass
from engine.models.decoder import ALIBI, Decoder, DecoderParams, LayerNormWeights
from engine.weights.bind import Name
from engine.weights.params import EPSILON, Meta

MOST = 8.0
"""The largest exponent of a slope, where the file does not say it."""


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    falls: ClassVar[bool] = True
    eps: Annotated[float, Meta("attention.layer_norm_epsilon", EPSILON)]
    alibi: Annotated[float, Meta("attention.max_alibi_bias", ALIBI)] = MOST


@dataclass(frozen=True)
class Weights(LayerNormWeights[LayerNormBlock[SelfAttention, PlainFeedForward]]):
    embedding_norm: Annotated[LayerNorm, Name("token_embd_norm")]


class Model(Decoder[Params, Weights]):
    gated = GELU

    def rope(self, i: int) -> RopeParams | None:
        return None

    def embed(self, p: Pass) -> Tensor:
        return self.weights.embedding_norm(super().embed(p), self.params.eps, "inp_norm")
