"""OLMoE 1B-7B: experts in every layer, and norms of all queries or keys together; NeoX pairs.

Allen Institute for AI 2024; tensor names and keys by the GGUF spec. The weights of the experts that
a token meets are not normalised.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.attention import WidthNormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.rope import RopeParams
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.weights.bind import Name


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams):
    """Hyperparameters by their GGUF keys."""

    normalised = False


@dataclass(frozen=True)
class Weights:
    """The whole model's tensors."""

    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    blocks: Annotated[list[PreNormBlock[WidthNormedAttention, Experts]], Name("blk")]
    norm: Annotated[RMSNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]


class Model(RoutedDecoder[Params, Weights]):
    """All layers are alike."""

    def rope(self, i: int) -> RopeParams:
        return self.params.rope(neox=True)
