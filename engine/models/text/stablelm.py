"""StableLM, StableLM 2, Orion: LayerNorms with biases, some channels of a head turn, SwiGLU.

Stability AI 2023, 2024; tensor names and keys by the GGUF spec. The 12B has attention and
feed-forward side by side, and norms of queries and keys. In Orion whole heads turn.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.attention import LayerNormedAttention
from engine.layers.blocks import LayerNormBlock, ParallelBlock
from engine.layers.feed_forward import FeedForward
from engine.models.decoder import Decoder, DecoderParams, LayerNormWeights
from engine.weights.params import EPSILON, Meta


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    eps: Annotated[float, Meta("attention.layer_norm_epsilon", EPSILON)]


Block = LayerNormBlock[LayerNormedAttention, FeedForward]
Beside = ParallelBlock[LayerNormedAttention, FeedForward]


Weights = LayerNormWeights[Block | Beside]


class Model(Decoder[Params, Weights]):
    """All layers are alike."""
