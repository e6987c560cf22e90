"""Qwen3.5 and 3.6 with experts, 35B-A3B and larger: Qwen3.5 whose tokens meet a few experts.

Qwen Team 2026; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass, replace
from typing import Annotated

from engine.layers.attention import GatedQueryAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.recurrent.delta_net import GatedDeltaNet, SplitGates
from engine.layers.spec import BlockSpec
from engine.models.routed import RoutedParams
from engine.models.text import qwen35
from engine.models.text.qwen35 import DeltaDecoder
from engine.weights.bind import Name


@dataclass(frozen=True, kw_only=True)
class Params(qwen35.Params, RoutedParams):
    """Hyperparameters by their GGUF keys."""


@dataclass(frozen=True)
class Weights:
    """The whole model's tensors."""

    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    blocks: Annotated[
        list[
            PreNormBlock[GatedQueryAttention, Experts | FeedForward]
            | PreNormBlock[GatedDeltaNet[SplitGates], Experts | FeedForward]
        ],
        Name("blk"),
    ]
    norm: Annotated[RMSNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]


class Model(DeltaDecoder[Params, Weights]):
    """Layers differ in what mixes their tokens."""

    def spec(self, i: int) -> BlockSpec:
        return replace(super().spec(i), route=self.params.route(i))
