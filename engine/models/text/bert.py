"""BERT, its embedders and rerankers: MiniLM, BGE, mxbai, arctic-embed, XLM-RoBERTa.

Devlin et al. 2019; tensor names and keys by the GGUF spec.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from engine.errors import ShapeError
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import AddNormBlock
from engine.layers.feed_forward import PlainFeedForward
from engine.layers.linear import Embedding, LayerNorm
from engine.layers.rope import RopeParams
from engine.layers.spec import GELU_ERF
from engine.layers.step import Pass
from engine.models.constants import Values
from engine.models.decoder import B, DecoderParams
from engine.models.encoder import TextEncoder
from engine.weights.bind import Name
from engine.weights.params import EPSILON, Meta


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    eps: Annotated[float, Meta("attention.layer_norm_epsilon", EPSILON)]


@dataclass(frozen=True)
class SegmentWeights(Generic[B]):
    """Tensors without learned positions; of the `kinds` of segments texts are all the first."""

    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    kinds: Annotated[Embedding | None, Name("token_types")]
    embedding_norm: Annotated[LayerNorm, Name("token_embd_norm")]
    blocks: Annotated[list[B], Name("blk")]


@dataclass(frozen=True)
class Weights(SegmentWeights[AddNormBlock[SelfAttention, PlainFeedForward]]):
    positions: Annotated[Embedding, Name("position_embd", rows=True)]


P = TypeVar("P", bound=DecoderParams)


class SegmentEncoder(TextEncoder[P, SegmentWeights[B]]):
    """Tokens enter as those of the first segment, normalised."""

    def embed(self, p: Pass) -> Tensor:
        weights = self.weights
        x = super().embed(p)
        return of_first_kind(x, weights.kinds, weights.embedding_norm, self.params.eps)


class Model(TextEncoder[Params, Weights]):
    gated = GELU_ERF

    def __init__(
        self, params: Params, weights: Weights, constants: Mapping[str, Values], n_ctx: int
    ) -> None:
        super().__init__(params, weights, constants, n_ctx)
        check_positions(weights.positions, params.n_ctx_train)

    def rope(self, i: int) -> RopeParams | None:
        return None

    def embed(self, p: Pass) -> Tensor:
        x = ops.add(super().embed(p), self.weights.positions(p.positions))
        return of_first_kind(x, self.weights.kinds, self.weights.embedding_norm, self.params.eps)


def check_positions(learned: Embedding, n_ctx: int) -> None:
    """Raises `ShapeError` where there are fewer rows than positions."""
    if learned.weight.shape[1] < n_ctx:
        what = f"a row for each of {n_ctx} positions"
        raise ShapeError("position_embd", what, learned.weight.shape)


def of_first_kind(x: Tensor, kinds: Embedding | None, norm: LayerNorm, eps: float) -> Tensor:
    """Embeddings [E, T] as tokens of the first segment, normalised."""
    if kinds is not None:
        x = ops.add(x, kinds.weight.view(0, (kinds.weight.shape[0],)))
    return norm(x, eps, "inp_norm")
