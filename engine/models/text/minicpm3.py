"""MiniCPM3: latent attention, every branch multiplied by a factor.

OpenBMB 2024; tensor names and keys by the GGUF spec, which has none for the factors. Rope pairs are
NeoX's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import Annotated, TypeVar

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.latent import ExpandedLatentAttention
from engine.layers.rope import RopeParams
from engine.layers.spec import BlockSpec
from engine.layers.step import Pass
from engine.models.constants import Constant, factors_by_length, rope_factors_by_length
from engine.models.decoder import HEAD, Decoder, DecoderParams, PlainWeights, W
from engine.models.kept import Cells
from engine.weights.params import Meta

EMBEDDINGS, DEPTH, WIDTH = 12.0, 1.4, 256
"""Of all MiniCPM 3 that there are: embeddings are multiplied by the first, branches by the second
over the root of the layers, and logits by the third over the embedding's length.
"""


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    """Hyperparameters by their GGUF keys; of `key_length` channels of a head the last
    `rope.dimension_count` turn.
    """

    value_length: Annotated[int, Meta("attention.value_length", HEAD)] = 0

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if not 0 < self.n_rot < self.key_length:
            return f"rope.dimension_count is {self.n_rot} of key_length {self.key_length}"
        if self.heads_kv and self.heads_kv != self.heads:
            return f"head_count_kv {self.heads_kv[0]} is not head_count {self.heads[0]}"
        return super().problem()

    def constants(self) -> Sequence[Constant]:
        return rope_factors_by_length(self.rope_dim)


Weights = PlainWeights[PreNormBlock[ExpandedLatentAttention, FeedForward]]


P = TypeVar("P", bound=Params)


class ExpandedDecoder(Decoder[P, W]):
    """Keys and values of each head are made of latents and kept."""

    def cells(self, i: int) -> Cells:
        value = self.params.value_length or self.params.n_embd // self.params.n_head(i)
        return replace(super().cells(i), value_dim=value)


class Model(ExpandedDecoder[Params, Weights]):
    @cached_property
    def turned(self) -> RopeParams:
        """By the factors for the context's length where the file has them."""
        params = self.params
        return params.rope(
            neox=True, factors=factors_by_length(self.constants, params.is_long(self.n_ctx))
        )

    def spec(self, i: int) -> BlockSpec:
        return replace(super().spec(i), residual=DEPTH / sqrt(self.params.n_layer))

    def embed(self, p: Pass) -> Tensor:
        return ops.scale(super().embed(p), EMBEDDINGS).named("inp_scaled")

    def logits(self, x: Tensor) -> Tensor:
        scaled = ops.scale(x, WIDTH / self.params.n_embd).named("result_scaled")
        return super().logits(scaled)
