"""StarCoder2: LayerNorms and biases everywhere, a feed-forward without a gate, NeoX pairs.

BigCode 2024; tensor names and keys by the GGUF spec, which has none for the window of the largest.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.attention import SelfAttention
from engine.layers.blocks import LayerNormBlock
from engine.layers.feed_forward import PlainFeedForward
from engine.layers.spec import GELU
from engine.models.decoder import Decoder, DecoderParams, LayerNormWeights
from engine.weights.params import EPSILON, Meta


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    eps: Annotated[float, Meta("attention.layer_norm_epsilon", EPSILON)]


Block = LayerNormBlock[SelfAttention, PlainFeedForward]
Weights = LayerNormWeights[Block]


class Model(Decoder[Params, Weights]):
    gated = GELU
