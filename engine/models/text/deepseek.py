"""DeepSeek-MoE 16B: Llama with experts and shared ones after a dense layer.

DeepSeek-AI 2024; tensor names and keys by the GGUF spec. Scores are a softmax, not normalised. Rope
pairs are (2i, 2i+1): the converter permutes q and k.
"""

from dataclasses import dataclass

from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.models.decoder import PlainWeights
from engine.models.routed import RoutedDecoder, RoutedParams


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams):
    normalised = False


Weights = PlainWeights[PreNormBlock[SelfAttention, Experts | FeedForward]]


class Model(RoutedDecoder[Params, Weights]):
    """The first layers are dense."""

    neox = False
