"""DBRX: experts in every layer, LayerNorms, queries, keys and values that are bounded; NeoX pairs.

Databricks 2024; tensor names and keys by the GGUF spec. Biases are nowhere.
"""

from dataclasses import dataclass, replace
from typing import Annotated

from engine.layers.attention import SelfAttention
from engine.layers.blocks import LayerNormBlock
from engine.layers.experts import Experts
from engine.layers.linear import LayerNorm
from engine.layers.rope import RopeParams
from engine.layers.spec import AttentionSpec
from engine.models.decoder import CLAMP, LayerNormWeights
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.weights.bind import Name
from engine.weights.params import EPSILON, Meta


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams):
    """Hyperparameters by their GGUF keys; `clamp` bounds queries, keys and values, 0: nothing."""

    eps: Annotated[float, Meta("attention.layer_norm_epsilon", EPSILON)]
    clamp: Annotated[float, Meta("attention.clamp_kqv", CLAMP)] = 0.0

    def attention(self, rope: RopeParams | None, i: int = 0) -> AttentionSpec:
        return replace(super().attention(rope, i), clamp=self.clamp)


@dataclass(frozen=True)
class Block(LayerNormBlock[SelfAttention, Experts]):
    """The norm of what enters the experts has another name."""

    ffn_norm: Annotated[LayerNorm, Name("attn_output_norm")]


Weights = LayerNormWeights[Block]


class Model(RoutedDecoder[Params, Weights]):
    """All layers are alike."""
