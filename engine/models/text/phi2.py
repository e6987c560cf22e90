"""Phi-1, 1.5 and 2: attention and feed-forward side by side behind one LayerNorm; all have biases.

Microsoft 2023; tensor names and keys by the GGUF spec. Some channels of a head turn, in NeoX pairs.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.attention import SelfAttention
from engine.layers.blocks import ParallelBlock
from engine.layers.feed_forward import PlainFeedForward
from engine.layers.spec import GELU
from engine.models.decoder import Decoder, DecoderParams, LayerNormWeights
from engine.weights.params import EPSILON, Meta


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    eps: Annotated[float, Meta("attention.layer_norm_epsilon", EPSILON)]


Weights = LayerNormWeights[ParallelBlock[SelfAttention, PlainFeedForward]]


class Model(Decoder[Params, Weights]):
    gated = GELU
