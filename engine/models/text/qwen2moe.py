"""Qwen1.5-MoE, Qwen2-57B-A14B: experts beside a shared one with a gate; biases of q, k and v.

Qwen Team 2024; tensor names and keys by the GGUF spec.
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
    """Layers are alike, but for those without experts."""
