"""Hunyuan 0.5B, 1.8B, 4B, 7B: queries and keys are normalised behind their turning; NeoX pairs.

Tencent 2025; tensor names and keys by the GGUF spec. The base of the rope holds the factor of its
scaling (NTK by alpha): the converter multiplies.
"""

from engine.layers.attention import TurnedNormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.models.decoder import Decoder, DecoderParams, PlainWeights

Params = DecoderParams


Weights = PlainWeights[PreNormBlock[TurnedNormedAttention, FeedForward]]


class Model(Decoder[Params, Weights]):
    """All layers are alike."""
