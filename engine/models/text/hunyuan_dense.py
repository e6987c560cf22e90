"""Hunyuan 0.5B, 1.8B, 4B, 7B: queries and keys are normalised behind their turning; NeoX pairs.

Tencent 2025; tensor names and keys by the GGUF spec. The base of the rope holds the factor of its
scaling (NTK by alpha): the converter multiplies.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.attention import TurnedNormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.rope import RopeParams
from engine.models.decoder import Decoder, DecoderParams
from engine.weights.bind import Name


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    """Hyperparameters by their GGUF keys."""


@dataclass(frozen=True)
class Weights:
    """The whole model's tensors."""

    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    blocks: Annotated[list[PreNormBlock[TurnedNormedAttention, FeedForward]], Name("blk")]
    norm: Annotated[RMSNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]


class Model(Decoder[Params, Weights]):
    """All layers are alike."""

    def rope(self, i: int) -> RopeParams:
        return self.params.rope(neox=True)
