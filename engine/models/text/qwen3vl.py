"""Qwen3-VL, text, also with experts: norms of q and k, places by turns, rows behind first layers.

Qwen Team 2025; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import NormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.rope import RopeParams, Sections
from engine.layers.step import LayerCache, Pass
from engine.models.decoder import PlainWeights
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.models.text import qwen2vl
from engine.models.text.qwen2vl import four
from engine.weights.params import COUNT, Meta, Range


@dataclass(frozen=True, kw_only=True)
class Params(qwen2vl.Params, RoutedParams):
    n_deepstack: Annotated[int, Meta("n_deepstack_layers", Range(0, COUNT.high))] = -1


Weights = PlainWeights[PreNormBlock[NormedAttention, FeedForward | Experts]]


class Model(RoutedDecoder[Params, Weights]):
    @property
    def n_deepstack(self) -> int | None:
        return self.params.n_deepstack if self.params.n_deepstack >= 0 else None

    @cached_property
    def turned(self) -> RopeParams:
        sections = Sections(four(self.params.sections), "interleaved")
        return replace(self.params.rope(self.neox), sections=sections)

    def layer(self, x: Tensor, i: int, p: Pass, cache: LayerCache | None) -> Tensor:
        """A layer, followed by its share of the pictures' rows."""
        x, more = super().layer(x, i, p, cache), p.deepstack(i)
        if more is None:
            return x
        last = i == self.params.n_layer - 1
        return ops.add(x, p.prune(more) if last else more).named("deepstack_out", i)
