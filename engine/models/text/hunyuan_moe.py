"""Hunyuan A13B: experts beside a shared one; queries and keys are normalised after their turning.

Tencent 2025; tensor names and keys by the GGUF spec. NeoX pairs, whose base holds the factor of its
scaling (NTK by alpha): the converter multiplies.
"""

from engine.layers.attention import TurnedNormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.models.decoder import PlainWeights
from engine.models.routed import RoutedDecoder, RoutedParams

Params = RoutedParams


Weights = PlainWeights[PreNormBlock[TurnedNormedAttention, Experts]]


class Model(RoutedDecoder[Params, Weights]):
    """All layers are alike."""
