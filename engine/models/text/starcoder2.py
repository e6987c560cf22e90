"""StarCoder2: LayerNorms and biases everywhere, a feed-forward without a gate, NeoX pairs.

BigCode 2024; tensor names and keys by the GGUF spec, which has none for the window of the largest.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.attention import SelfAttention
from engine.layers.blocks import LayerNormBlock
from engine.layers.feed_forward import PlainFeedForward
from engine.layers.linear import Embedding, LayerNorm, Linear
from engine.layers.rope import RopeParams
from engine.layers.spec import GELU
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

    gated = GELU

    def rope(self, i: int) -> RopeParams:
        return self.params.rope(neox=True)
