"""Jina Embeddings 3: an XLM-RoBERTa with rotary positions, without the LoRA of a task.

Sturua et al. 2024; tensor names and keys by the GGUF spec. Adapters of tasks are other files, to be
merged before.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import AddNormBlock
from engine.layers.feed_forward import PlainFeedForward
from engine.layers.linear import Embedding, LayerNorm
from engine.layers.spec import GELU_ERF
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
    blocks: Annotated[list[AddNormBlock[SelfAttention, PlainFeedForward]], Name("blk")]


class Model(TextEncoder[bert.Params, Weights]):
    gated = GELU_ERF

    def embed(self, p: Pass) -> Tensor:
        x, weights = super().embed(p), self.weights
        return bert.of_first_kind(x, weights.kinds, weights.embedding_norm, self.params.eps)
