"""Qwen2, 2.5 and Seed-OSS, also the text of InternVL: biases of q, k and v, NeoX pairs.

Qwen Team 2024; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.rope import RopeParams
from engine.models.decoder import Decoder, DecoderParams
from engine.weights.bind import Name


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    """Hyperparameters by their GGUF keys."""

    def turned(self) -> RopeParams:
        """How queries and keys turn."""
        return self.rope(neox=True)


@dataclass(frozen=True)
class Weights:
    """The whole model's tensors."""

    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    blocks: Annotated[list[PreNormBlock[SelfAttention, FeedForward]], Name("blk")]
    norm: Annotated[RMSNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]


class Model(Decoder[Params, Weights]):
    """All layers are alike."""

    def rope(self, i: int) -> RopeParams:
        return self.params.turned()
