"""Granite 3 and 4, also with experts: Llama with multipliers of embeddings, branches, logits.

IBM 2024; tensor names and keys by the GGUF spec. Rope pairs are (2i, 2i+1): the converter permutes
q and k.
"""

from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.rope import RopeParams
from engine.layers.spec import AttentionSpec, BlockSpec
from engine.layers.step import Pass
from engine.models.decoder import PlainWeights, W
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.weights.params import Meta, Range

MULTIPLIER = Range(1e-6, 1e6, or_zero=True)


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams):
    """Hyperparameters by their GGUF keys; logits are divided by theirs, 0 means 1 everywhere but
    for scores, which then are scaled as usual.
    """

    embedding_scale: Annotated[float, Meta("embedding_scale", MULTIPLIER)] = 0.0
    residual_scale: Annotated[float, Meta("residual_scale", MULTIPLIER)] = 0.0
    score_scale: Annotated[float, Meta("attention.scale", MULTIPLIER)] = 0.0
    logit_scale: Annotated[float, Meta("logit_scale", MULTIPLIER)] = 0.0
    turns: Annotated[bool, Meta("rope.scaling.finetuned", Range(0, 1))] = True


Weights = PlainWeights[PreNormBlock[SelfAttention, FeedForward | Experts]]


G = TypeVar("G", bound=Params)


class GraniteDecoder(RoutedDecoder[G, W]):
    """Everything is multiplied by its factor."""

    neox = False

    def rope(self, i: int) -> RopeParams | None:
        return self.turned if self.params.turns else None

    def attention(self, i: int) -> AttentionSpec:
        attention = super().attention(i)
        return replace(attention, scale=self.params.score_scale or attention.scale)

    def spec(self, i: int) -> BlockSpec:
        return replace(super().spec(i), residual=self.params.residual_scale or 1.0)

    def embed(self, p: Pass) -> Tensor:
        x = super().embed(p)
        scale = self.params.embedding_scale
        return ops.scale(x, scale).named("inp_scaled") if scale else x

    def logits(self, x: Tensor) -> Tensor:
        logits = super().logits(x)
        scale = self.params.logit_scale
        return ops.scale(logits, 1 / scale).named("result_output") if scale else logits


class Model(GraniteDecoder[Params, Weights]):
    """All layers are alike."""
