"""Nomic BERT: nomic-embed-text 1 and 1.5, BERT with rotary positions and a gated feed-forward.

Nussbaum et al. 2024; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import AddNormBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import Embedding, LayerNorm
from engine.layers.step import Pass
from engine.models.encoder import TextEncoder
from engine.models.text import bert
from engine.weights.bind import Name

Params = bert.Params


@dataclass(frozen=True)
class Weights:
    """The whole model's tensors; of the `kinds` of segments texts are all the first."""

    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    kinds: Annotated[Embedding | None, Name("token_types")]
    embedding_norm: Annotated[LayerNorm, Name("token_embd_norm")]
    blocks: Annotated[list[AddNormBlock[SelfAttention, FeedForward]], Name("blk")]


class Model(TextEncoder[bert.Params, Weights]):
    def embed(self, p: Pass) -> Tensor:
        x, weights = super().embed(p), self.weights
        return bert.of_first_kind(x, weights.kinds, weights.embedding_norm, self.params.eps)
