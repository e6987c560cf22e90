"""GPT-2, StarCoder: learned positions, LayerNorms, biases, a feed-forward without a gate.

Radford et al. 2019, BigCode 2023; tensor names and keys by the GGUF spec. The output is tied to the
embeddings. StarCoder has one head of keys and values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import LayerNormBlock
from engine.layers.feed_forward import PlainFeedForward
from engine.layers.linear import Embedding, LayerNorm, Linear
from engine.layers.rope import RopeParams
from engine.layers.spec import GELU
from engine.layers.step import Pass
from engine.models.constants import Values
from engine.models.decoder import Decoder, DecoderParams
from engine.models.kept import Cells
from engine.models.text.bert import check_positions
from engine.weights.bind import Name
from engine.weights.params import EPSILON, Meta


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    eps: Annotated[float, Meta("attention.layer_norm_epsilon", EPSILON)]


@dataclass(frozen=True)
class Weights:
    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    positions: Annotated[Embedding, Name("position_embd", rows=True)]
    blocks: Annotated[list[LayerNormBlock[SelfAttention, PlainFeedForward]], Name("blk")]
    norm: Annotated[LayerNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]


class Model(Decoder[Params, Weights]):
    gated = GELU

    def __init__(
        self, params: Params, weights: Weights, constants: Mapping[str, Values], n_ctx: int
    ) -> None:
        super().__init__(params, weights, constants, n_ctx)
        check_positions(weights.positions, params.n_ctx_train)

    def rope(self, i: int) -> RopeParams | None:
        return None

    def cells(self, i: int) -> Cells:
        """Keys hold the learned position of their token, so nothing can turn them to another."""
        return replace(super().cells(i), movable=False)

    def embed(self, p: Pass) -> Tensor:
        return ops.add(super().embed(p), self.weights.positions(p.positions)).named("inpL")
