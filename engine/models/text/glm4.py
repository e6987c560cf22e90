"""GLM-4-0414: sandwich norms, gate and up of one matrix, the first half of a head turns.

Zhipu AI 2025; tensor names and keys by the GGUF spec. Rope pairs are (2i, 2i+1).
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.attention import SelfAttention
from engine.layers.blocks import SandwichBlock
from engine.layers.feed_forward import FusedFeedForward
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.rope import RopeParams
from engine.models.decoder import Decoder, DecoderParams
from engine.weights.bind import Name


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    """Hyperparameters by their GGUF keys."""


@dataclass(frozen=True)
class Weights:
    """The whole model's tensors."""

    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    blocks: Annotated[list[SandwichBlock[SelfAttention, FusedFeedForward]], Name("blk")]
    norm: Annotated[RMSNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]


class Model(Decoder[Params, Weights]):
    """All layers are alike."""

    def rope(self, i: int) -> RopeParams:
        return self.params.rope(neox=False)
