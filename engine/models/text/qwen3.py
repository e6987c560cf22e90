"""Qwen3, also its embedders and rerankers: norms of queries and keys, no biases, NeoX pairs.

Qwen Team 2025; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.attention import NormedAttention
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
    blocks: Annotated[list[PreNormBlock[NormedAttention, FeedForward]], Name("blk")]
    norm: Annotated[RMSNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]


class Model(Decoder[Params, Weights]):
    """All layers are alike."""

    def rope(self, i: int) -> RopeParams:
        return self.params.rope(neox=True)
