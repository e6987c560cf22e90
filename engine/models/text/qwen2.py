"""Qwen, Qwen2, 2.5, Seed-OSS, openPangu Embedded, also the text of InternVL: biases, NeoX pairs.

Qwen Team 2024; tensor names and keys by the GGUF spec.
"""

from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.models.decoder import Decoder, DecoderParams, PlainWeights

Params = DecoderParams

Weights = PlainWeights[PreNormBlock[SelfAttention, FeedForward]]


class Model(Decoder[Params, Weights]):
    """All layers are alike."""
