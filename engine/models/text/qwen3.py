"""Qwen3, also its embedders and rerankers: norms of queries and keys, no biases, NeoX pairs.

Qwen Team 2025; tensor names and keys by the GGUF spec.
"""

from engine.layers.attention import NormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.models.decoder import Decoder, DecoderParams, PlainWeights

Params = DecoderParams


Weights = PlainWeights[PreNormBlock[NormedAttention, FeedForward]]


class Model(Decoder[Params, Weights]):
    """All layers are alike."""
