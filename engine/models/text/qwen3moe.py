"""Qwen3 with experts, 30B-A3B, 235B-A22B, Coder: norms of queries and keys, NeoX pairs.

Qwen Team 2025; tensor names and keys by the GGUF spec.
"""

from engine.layers.attention import NormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.models.decoder import PlainWeights
from engine.models.routed import RoutedDecoder, RoutedParams

Params = RoutedParams


Weights = PlainWeights[PreNormBlock[NormedAttention, Experts | FeedForward]]


class Model(RoutedDecoder[Params, Weights]):
    """Layers are alike, but for those without experts."""
