"""GLM-4.5, 4.6, 4.7, Air, 4.5V, 4.6V: experts behind some dense layers, half of a head turns.

Zhipu AI 2025; tensor names and keys by the GGUF spec. Norms of queries and keys in large ones; with
pictures pairs turn by time, height and width.
"""

from dataclasses import dataclass
from functools import cached_property

from engine.graph.ops.experts import Scoring
from engine.layers.attention import NormedAttention, SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.rope import RopeParams
from engine.models.decoder import PlainWeights
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.models.text.qwen2vl import SectionedParams

Block = PreNormBlock[NormedAttention | SelfAttention, Experts | FeedForward]


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams, SectionedParams):
    score = Scoring.SIGMOID
    normalised = False


Weights = PlainWeights[Block]


class Model(RoutedDecoder[Params, Weights]):
    """The first layers are dense."""

    @cached_property
    def turned(self) -> RopeParams:
        return self.params.sectioned(self.params.rope(self.neox))
