"""MPT 7B, 30B, Replit Code, SEA-LION: scores that fall with the distance (ALiBi), LayerNorms.

MosaicML 2023; tensor names and keys by the GGUF spec. Where no scores fall, positions are learned.
The GELU is the exact one; biases where the file has them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import LayerNormBlock
from engine.layers.feed_forward import PlainFeedForward
from engine.layers.linear import Embedding
from engine.layers.rope import RopeParams
from engine.layers.spec import GELU_ERF
from engine.layers.step import Pass
from engine.models.constants import Values
from engine.models.decoder import ClampedParams, Decoder, LayerNormWeights
from engine.models.kept import Cells
from engine.models.text.bert import check_positions
from engine.weights.bind import Name


@dataclass(frozen=True, kw_only=True)
class Params(ClampedParams):
    falls: ClassVar[bool] = True


@dataclass(frozen=True)
class Weights(LayerNormWeights[LayerNormBlock[SelfAttention, PlainFeedForward]]):
    positions: Annotated[Embedding | None, Name("position_embd", rows=True)]


class Model(Decoder[Params, Weights]):
    gated = GELU_ERF

    def __init__(
        self, params: Params, weights: Weights, constants: Mapping[str, Values], n_ctx: int
    ) -> None:
        super().__init__(params, weights, constants, n_ctx)
        if weights.positions is not None:
            check_positions(weights.positions, params.n_ctx_train)

    def rope(self, i: int) -> RopeParams | None:
        return None

    def cells(self, i: int) -> Cells:
        """Keys may hold the learned position of their token."""
        return replace(super().cells(i), movable=self.weights.positions is None)

    def embed(self, p: Pass) -> Tensor:
        x = super().embed(p)
        if self.weights.positions is None:
            return x
        return ops.add(x, self.weights.positions(p.positions)).named("inpL")
