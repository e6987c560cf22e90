"""MiMo-V2-Flash, V2.5: experts after a dense layer, windows with sinks, longer keys than values.

Xiaomi 2025; tensor names and keys by the GGUF spec. Windowed layers have a base of their own and
twice the heads of keys; values are scaled. A bias corrects the choice of experts, whose scores are
sigmoids. A third of a head turns, in NeoX pairs. The model sees as many tokens before one as the
file's window counts, as transformers does; llama.cpp has the token itself among them.
"""

from dataclasses import dataclass, replace
from typing import Annotated

from engine.graph.ops.experts import Scoring
from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.rope import RopeParams
from engine.layers.spec import AttentionSpec
from engine.models.decoder import HEAD, ROPE_BASE, PlainWeights
from engine.models.kept import Cells
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.models.windowed import WindowedDecoder, WindowedParams
from engine.weights.bind import Name
from engine.weights.params import Meta, Range


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams, WindowedParams):
    """Hyperparameters by their GGUF keys; `value_scale` 0 means 1."""

    score = Scoring.SIGMOID

    value_length: Annotated[int, Meta("attention.value_length", HEAD)] = 0
    value_scale: Annotated[float, Meta("attention.value_scale", Range(0, 1e3))] = 0.0
    rope_base_local: Annotated[
        float, Meta("rope.freq_base_swa", Range(ROPE_BASE.low, ROPE_BASE.high, or_zero=True))
    ] = 0.0

    def attention(self, rope: RopeParams | None, i: int = 0) -> AttentionSpec:
        return replace(super().attention(rope, i), value_scale=self.value_scale or 1.0)


@dataclass(frozen=True)
class SomeSinkAttention(SelfAttention):
    """In windowed layers a score a head joins its softmax and mixes in nothing."""

    sinks: Annotated[Tensor | None, Name("attn_sinks.weight")]

    def sink(self) -> Tensor | None:
        return self.sinks


Weights = PlainWeights[PreNormBlock[SomeSinkAttention, Experts | FeedForward]]


class Model(RoutedDecoder[Params, Weights], WindowedDecoder[Params, Weights]):
    """Layers differ in what they see, how they turn, and whether they have experts."""

    def rope(self, i: int) -> RopeParams:
        rope = self.params.rope(neox=True)
        base = self.params.rope_base_local if self.params.is_windowed(i) else 0.0
        return replace(rope, base=base or rope.base)

    def window(self, i: int) -> int | None:
        seen = super().window(i)
        return None if seen is None else seen + 1

    def cells(self, i: int) -> Cells:
        cells = super().cells(i)
        return replace(cells, value_dim=self.params.value_length or cells.value_dim)
