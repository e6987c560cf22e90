"""Nemotron 4, Nemotron Mini, Minitron, Jais 2: LayerNorms and squared ReLUs.

NVIDIA 2024, Inception 2025; tensor names and keys by the GGUF spec. The feed-forward has no gate.
Half of a head turns, in Jais 2 all of it. NVIDIA's model multiplies by 1 + the weight of a norm,
and the file holds that sum. Rope pairs are NeoX's.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.attention import SelfAttention
from engine.layers.blocks import LayerNormBlock
from engine.layers.feed_forward import PlainFeedForward
from engine.layers.spec import RELU_SQR
from engine.models.decoder import Decoder, DecoderParams, LayerNormWeights
from engine.weights.params import EPSILON, Meta


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    eps: Annotated[float, Meta("attention.layer_norm_epsilon", EPSILON)]


Weights = LayerNormWeights[LayerNormBlock[SelfAttention, PlainFeedForward]]


class Model(Decoder[Params, Weights]):
    gated = RELU_SQR
