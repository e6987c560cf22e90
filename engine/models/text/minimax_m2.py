"""MiniMax M2, M2.x: experts in every layer, norms of all heads together, half of a head turns.

MiniMax 2025; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass

from engine.graph.ops.experts import Scoring
from engine.layers.attention import WidthNormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.models.decoder import PlainWeights
from engine.models.routed import RoutedDecoder, RoutedParams


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams):
    score = Scoring.SIGMOID


Weights = PlainWeights[PreNormBlock[WidthNormedAttention, Experts]]


class Model(RoutedDecoder[Params, Weights]):
    """All layers are alike."""
