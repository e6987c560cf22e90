"""GLM-4 9B Chat, ChatGLM2, ChatGLM3, CodeGeeX: Llama with joint projections.

Zhipu AI 2023, 2024; tensor names and keys by the GGUF spec. Queries, keys and values have biases,
and half of a head turns, in neighbouring pairs.
"""

from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FusedFeedForward
from engine.models.decoder import Decoder, DecoderParams, PlainWeights

Params = DecoderParams
Weights = PlainWeights[PreNormBlock[SelfAttention, FusedFeedForward]]


class Model(Decoder[Params, Weights]):
    neox = False
