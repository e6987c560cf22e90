"""OLMoE 1B-7B: experts in every layer, and norms of all queries or keys together; NeoX pairs.

Allen Institute for AI 2024; tensor names and keys by the GGUF spec. The weights of the experts that
a token meets are not normalised.
"""

from dataclasses import dataclass

from engine.layers.attention import WidthNormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.models.decoder import PlainWeights
from engine.models.routed import RoutedDecoder, RoutedParams


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams):
    normalised = False


Weights = PlainWeights[PreNormBlock[WidthNormedAttention, Experts]]


class Model(RoutedDecoder[Params, Weights]):
    """All layers are alike."""
