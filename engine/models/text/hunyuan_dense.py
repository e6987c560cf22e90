"""Hunyuan 0.5B, 1.8B, 4B, 7B, HunyuanOCR: norms of queries and keys behind their turning; NeoX.

Tencent 2025; tensor names and keys by the GGUF spec. The base of the rope holds the factor of its
scaling (NTK by alpha): the converter multiplies, or stores alpha. In HunyuanOCR pairs turn by the
token's number, and in pictures by column, row and the picture's number.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

from engine.layers.attention import TurnedNormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.rope import RopeParams
from engine.models.decoder import ROPE_FACTOR, Decoder, PlainWeights
from engine.models.kept import Cells
from engine.models.text.qwen2vl import SectionedParams
from engine.weights.params import Meta


@dataclass(frozen=True, kw_only=True)
class Params(SectionedParams):
    alpha: Annotated[float, Meta("rope.scaling.alpha", ROPE_FACTOR)] = 0.0

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if self.alpha and self.rope_dim < 4:
            return f"rope.scaling.alpha scales no heads of {self.rope_dim} channels"
        return super().problem()

    def scaled(self, rope: RopeParams) -> RopeParams:
        """The same, its base multiplied by alpha^(d / (d - 2))."""
        if not self.alpha:
            return rope
        return replace(rope, base=rope.base * self.alpha ** (rope.n_rot / (rope.n_rot - 2)))


Weights = PlainWeights[PreNormBlock[TurnedNormedAttention, FeedForward]]


class Model(Decoder[Params, Weights]):
    @cached_property
    def turned(self) -> RopeParams:
        return self.params.sectioned(self.params.scaled(self.params.rope(self.neox)))

    def cells(self, i: int) -> Cells:
        """Columns and rows of pictures count from 0 wherever these stand: keys cannot move."""
        return replace(super().cells(i), movable=not any(self.params.sections))
