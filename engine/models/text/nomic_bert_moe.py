"""Nomic BERT with experts: nomic-embed-text 2, in every second layer, none of them gated.

Nussbaum & Duderstadt 2025; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import AddNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import PlainFeedForward
from engine.layers.linear import Embedding, LayerNorm
from engine.layers.spec import GELU_ERF, BlockSpec
from engine.layers.step import Pass
from engine.models.encoder import TextEncoder
from engine.models.routed import RoutedParams
from engine.models.text.bert import of_first_kind
from engine.weights.bind import Name
from engine.weights.params import EPSILON, Meta


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams):
    normalised = False

    eps: Annotated[float, Meta("attention.layer_norm_epsilon", EPSILON)]


@dataclass(frozen=True)
class Weights:
    """The whole model's tensors; of the `kinds` of segments texts are all the first."""

    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    kinds: Annotated[Embedding | None, Name("token_types")]
    embedding_norm: Annotated[LayerNorm, Name("token_embd_norm")]
    blocks: Annotated[list[AddNormBlock[SelfAttention, Experts | PlainFeedForward]], Name("blk")]


class Model(TextEncoder[Params, Weights]):
    """Layers with experts have their tensors."""

    gated = GELU_ERF

    def spec(self, i: int) -> BlockSpec:
        params = self.params
        return BlockSpec(self.attention(i), self.gated, params.eps, route=params.route(i))

    def embed(self, p: Pass) -> Tensor:
        x, weights = super().embed(p), self.weights
        return of_first_kind(x, weights.kinds, weights.embedding_norm, self.params.eps)
