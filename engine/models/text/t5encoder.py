"""Sentence-T5, GTR, Instructor: encoders of T5, for embeddings.

Raffel et al. 2020; tensor names and keys by the GGUF spec. Scores have a learned bias in place of
positions, and no scale. The matrix that those models have behind the pooling is in no file: their
embeddings are the pooled rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from engine.errors import ShapeError
from engine.layers.attention import RelativeAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward, PlainFeedForward
from engine.layers.relative import BUCKETS
from engine.layers.rope import RopeParams
from engine.layers.spec import GEGLU, RELU, AttentionSpec, BlockSpec, GatedActivation
from engine.models.constants import Values
from engine.models.decoder import DecoderParams
from engine.models.encoder import NormedEncoder, NormedWeights
from engine.weights.bind import Name
from engine.weights.params import Meta


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    buckets: Annotated[int, Meta("attention.relative_buckets_count", BUCKETS)]

    def attention(self, rope: RopeParams | None, i: int = 0) -> AttentionSpec:
        return replace(super().attention(rope, i), scale=1.0)


Block = PreNormBlock[RelativeAttention, FeedForward | PlainFeedForward]


@dataclass(frozen=True)
class Weights(NormedWeights[Block]):
    blocks: Annotated[list[Block], Name("enc.blk")]


class Model(NormedEncoder[Params, Weights]):
    def __init__(
        self, params: Params, weights: Weights, constants: Mapping[str, Values], n_ctx: int
    ) -> None:
        super().__init__(params, weights, constants, n_ctx)
        if len(weights.blocks) != params.n_layer:  # beside a decoder nobody has counted them
            what = f"block_count is {params.n_layer}, the tensors make {len(weights.blocks)} blocks"
            raise ShapeError("enc.blk", what)
        for i, block in enumerate(weights.blocks):
            check_table(block.attn, i, params)

    def rope(self, i: int) -> RopeParams | None:
        return None

    def spec(self, i: int) -> BlockSpec:
        return replace(super().spec(i), gated=activation(self.weights.blocks[i].ffn))


def activation(ffn: FeedForward | PlainFeedForward) -> GatedActivation:
    """Gated feed-forwards have GELU, plain ones ReLU."""
    return GEGLU if isinstance(ffn, FeedForward) else RELU


def check_table(attention: RelativeAttention, i: int, params: Params) -> None:
    """Raises `ShapeError` where layer i's bias has another size, or the first layer has none."""
    shape = () if attention.table is None else attention.table.dims
    if (i == 0 or shape) and shape != (params.n_head(i), params.buckets):
        what = f"a bias [{params.n_head(i)} heads, {params.buckets} buckets] in layer {i}"
        raise ShapeError("attn_rel_b", what, shape)
