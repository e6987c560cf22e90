"""LFM2 and LFM2.5 with experts, 8B-A1B: LFM2 whose tokens meet a few experts in most layers.

Liquid AI 2025; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass, replace
from typing import Annotated

from engine.graph.ops.experts import Scoring
from engine.layers.attention import NormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.recurrent import ShortConv
from engine.layers.spec import BlockSpec
from engine.models.routed import RoutedParams
from engine.models.text import lfm2
from engine.models.text.lfm2 import ConvDecoder
from engine.weights.bind import Name


@dataclass(frozen=True, kw_only=True)
class Params(lfm2.Params, RoutedParams):
    score = Scoring.SIGMOID


@dataclass(frozen=True)
class Weights:
    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    blocks: Annotated[
        list[
            PreNormBlock[NormedAttention, Experts | FeedForward]
            | PreNormBlock[ShortConv, Experts | FeedForward]
        ],
        Name("blk"),
    ]
    norm: Annotated[RMSNorm, Name("token_embd_norm", alt="output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]


class Model(ConvDecoder[Params, Weights]):
    """Layers differ in what mixes their tokens, and in what feeds them."""

    def spec(self, i: int) -> BlockSpec:
        return replace(super().spec(i), route=self.params.route(i))
