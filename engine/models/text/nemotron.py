"""Nemotron 4, Nemotron Mini, Minitron: LayerNorms and squared ReLUs; half of a head turns.

NVIDIA 2024; tensor names and keys by the GGUF spec. The feed-forward has no gate. The model
multiplies by 1 + the weight of a norm, and the file holds that sum. Rope pairs are NeoX's.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.attention import SelfAttention
from engine.layers.blocks import LayerNormBlock
from engine.layers.feed_forward import PlainFeedForward
from engine.layers.linear import Embedding, LayerNorm, Linear
from engine.layers.rope import RopeParams
from engine.layers.spec import RELU_SQR
from engine.models.decoder import Decoder, DecoderParams
from engine.weights.bind import Name
from engine.weights.params import EPSILON, Meta


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    """Hyperparameters by their GGUF keys."""

    eps: Annotated[float, Meta("attention.layer_norm_epsilon", EPSILON)]


@dataclass(frozen=True)
class Weights:
    """The whole model's tensors."""

    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    blocks: Annotated[list[LayerNormBlock[SelfAttention, PlainFeedForward]], Name("blk")]
    norm: Annotated[LayerNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]


class Model(Decoder[Params, Weights]):
    """All layers are alike."""

    gated = RELU_SQR

    def rope(self, i: int) -> RopeParams:
        return self.params.rope(neox=True)
