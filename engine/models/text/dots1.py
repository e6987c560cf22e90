"""dots.llm1, Hunyuan 3: experts and a shared one after dense layers, norms of q and k.

rednote-hilab 2025, Tencent 2026; tensor names and keys by the GGUF spec. A bias corrects the choice
of experts, whose scores are sigmoids; NeoX pairs.
"""

from dataclasses import dataclass

from engine.graph.ops.experts import Scoring
from engine.layers.attention import NormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.models.decoder import PlainWeights
from engine.models.routed import RoutedDecoder, RoutedParams


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams):
    score = Scoring.SIGMOID
    normalised = False


Weights = PlainWeights[PreNormBlock[NormedAttention, Experts | FeedForward]]


class Model(RoutedDecoder[Params, Weights]):
    """The first layers are dense."""
