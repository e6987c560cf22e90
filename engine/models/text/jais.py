"""Jais 13B, 30B and the Jais family: scores that fall with the distance (ALiBi), SwiGLU, biases.

Inception, MBZUAI 2023; tensor names and keys by the GGUF spec, whose converter multiplies the
embeddings and the output. Scores are divided by the size of a head, not by its root.
"""

from dataclasses import dataclass, replace

from engine.layers.attention import SelfAttention
from engine.layers.blocks import LayerNormBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.rope import RopeParams
from engine.layers.spec import AttentionSpec
from engine.models.decoder import Decoder, LayerNormWeights
from engine.models.text import bloom


@dataclass(frozen=True, kw_only=True)
class Params(bloom.Params):
    def attention(self, rope: RopeParams | None, i: int = 0) -> AttentionSpec:
        return replace(super().attention(rope, i), scale=1 / self.head_dim)


Weights = LayerNormWeights[LayerNormBlock[SelfAttention, FeedForward]]


class Model(Decoder[Params, Weights]):
    def rope(self, i: int) -> RopeParams | None:
        return None
