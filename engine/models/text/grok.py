"""Grok 1, Grok 2: sandwich norms, experts beside a feed-forward, scores and logits capped, GeGLU.

xAI 2024, 2025; tensor names and keys by the GGUF spec. NeoX pairs. Grok 1 has experts alone; its
early files have none of the factors, which are the defaults.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import SandwichBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import RMSNorm
from engine.layers.rope import RopeParams
from engine.layers.spec import GEGLU, AttentionSpec, BlockSpec
from engine.layers.step import Pass
from engine.models.decoder import PlainWeights
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.models.text.gemma2 import CAP
from engine.models.text.mistral3 import TURNS
from engine.weights.bind import Name
from engine.weights.params import Meta, Range

FACTOR = Range(1e-6, 1e6)


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams):
    embedding_scale: Annotated[float, Meta("embedding_scale", FACTOR)] = 78.38367176906169
    logit_scale: Annotated[float, Meta("logit_scale", FACTOR)] = 0.5773502691896257
    score_scale: Annotated[float, Meta("attention.output_scale", FACTOR)] = 0.08838834764831845
    score_cap: Annotated[float, Meta("attn_logit_softcapping", CAP)] = 30.0
    softcap: Annotated[float, Meta("final_logit_softcapping", CAP)] = 0.0
    beta_fast: Annotated[float, Meta("rope.scaling.yarn_beta_fast", TURNS)] = 8.0
    beta_slow: Annotated[float, Meta("rope.scaling.yarn_beta_slow", TURNS)] = 1.0

    def attention(self, rope: RopeParams | None, i: int = 0) -> AttentionSpec:
        spec = super().attention(rope, i)
        return replace(spec, scale=self.score_scale, softcap=self.score_cap)


@dataclass(frozen=True)
class ExpertsBeside:
    """Experts, and a feed-forward where the file has one: their sum over the root of 2."""

    experts: Experts
    dense: FeedForward | None

    def __call__(self, x: Tensor, i: int, spec: BlockSpec) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        routed = self.experts(x, i, spec)
        if self.dense is None:
            return routed
        both = ops.add(self.dense(x, i, spec), routed)
        return ops.scale(both, sqrt(0.5)).named("ffn_both", i)


@dataclass(frozen=True)
class Block(SandwichBlock[SelfAttention, ExpertsBeside]):
    """The norms behind have other names."""

    attn_post_norm: Annotated[RMSNorm, Name("attn_output_norm")]
    ffn_post_norm: Annotated[RMSNorm, Name("layer_output_norm", alt="post_ffw_norm")]


Weights = PlainWeights[Block]


class Model(RoutedDecoder[Params, Weights]):
    gated = GEGLU

    @cached_property
    def turned(self) -> RopeParams:
        rope, params = super().turned, self.params
        if rope.yarn is None:
            return rope
        yarn = replace(rope.yarn, beta_fast=params.beta_fast, beta_slow=params.beta_slow)
        return replace(rope, yarn=yarn)

    def embed(self, p: Pass) -> Tensor:
        return ops.scale(super().embed(p), self.params.embedding_scale).named("inp_scaled")

    def logits(self, x: Tensor) -> Tensor:
        logits = ops.scale(super().logits(x), self.params.logit_scale).named("result_output")
        if self.params.softcap > 0:
            logits = ops.softcap(logits, self.params.softcap).named("result_output")
        return logits
