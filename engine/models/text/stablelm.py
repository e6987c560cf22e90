"""StableLM and StableLM 2: LayerNorms with biases, some channels of a head turn, SwiGLU.

Stability AI 2023, 2024; tensor names and keys by the GGUF spec. The 12B has attention and
feed-forward side by side, and norms of queries and keys.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.attention import LayerNormedAttention
from engine.layers.blocks import LayerNormBlock, ParallelBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import Embedding, LayerNorm, Linear
from engine.layers.rope import RopeParams
from engine.models.decoder import Decoder, DecoderParams
from engine.weights.bind import Name
from engine.weights.params import EPSILON, Meta


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    """Hyperparameters by their GGUF keys."""

    eps: Annotated[float, Meta("attention.layer_norm_epsilon", EPSILON)]


Block = LayerNormBlock[LayerNormedAttention, FeedForward]
Beside = ParallelBlock[LayerNormedAttention, FeedForward]


@dataclass(frozen=True)
class Weights:
    """The whole model's tensors."""

    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    blocks: Annotated[list[Block | Beside], Name("blk")]
    norm: Annotated[LayerNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]


class Model(Decoder[Params, Weights]):
    """All layers are alike."""

    def rope(self, i: int) -> RopeParams:
        return self.params.rope(neox=True)
