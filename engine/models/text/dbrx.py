"""DBRX: experts in every layer, LayerNorms, queries, keys and values that are bounded; NeoX pairs.

Databricks 2024; tensor names and keys by the GGUF spec. Biases are nowhere.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.attention import SelfAttention
from engine.layers.blocks import LayerNormBlock
from engine.layers.experts import Experts
from engine.layers.linear import LayerNorm
from engine.models.decoder import ClampedParams, LayerNormWeights
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.weights.bind import Name


@dataclass(frozen=True, kw_only=True)
class Params(ClampedParams, RoutedParams):
    """Hyperparameters by their GGUF keys."""


@dataclass(frozen=True)
class Block(LayerNormBlock[SelfAttention, Experts]):
    """The norm of what enters the experts has another name."""

    ffn_norm: Annotated[LayerNorm, Name("attn_output_norm")]


Weights = LayerNormWeights[Block]


class Model(RoutedDecoder[Params, Weights]):
    """All layers are alike."""
