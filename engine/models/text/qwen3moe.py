"""Qwen3 with experts, 30B-A3B, 235B-A22B, Coder: norms of queries and keys, NeoX pairs.

Qwen Team 2025; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.attention import NormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.rope import RopeParams
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.weights.bind import Name


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams):
    """Hyperparameters by their GGUF keys."""


@dataclass(frozen=True)
class Weights:
    """The whole model's tensors."""

    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    blocks: Annotated[list[PreNormBlock[NormedAttention, Experts | FeedForward]], Name("blk")]
    norm: Annotated[RMSNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]


class Model(RoutedDecoder[Params, Weights]):
    """Layers are alike, but for those without experts."""

    def rope(self, i: int) -> RopeParams:
        return self.params.rope(neox=True)
