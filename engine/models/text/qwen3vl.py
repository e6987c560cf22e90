"""Qwen3-VL, text: norms of queries and keys, places by turns, rows added behind the first layers.

Qwen Team 2025; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass, replace
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.rope import RopeParams, Sections
from engine.layers.step import LayerCache, Pass
from engine.models.decoder import Decoder
from engine.models.text import qwen2vl
from engine.models.text.qwen2vl import four
from engine.models.text.qwen3 import Weights
from engine.weights.params import COUNT, Meta, Range

__all__ = ["Model", "Params", "Weights"]


@dataclass(frozen=True, kw_only=True)
class Params(qwen2vl.Params):
    """Hyperparameters by their GGUF keys."""

    n_deepstack: Annotated[int, Meta("n_deepstack_layers", Range(0, COUNT.high))] = -1

    def turned(self) -> RopeParams:
        sections = Sections(four(self.sections), "interleaved")
        return replace(super().turned(), sections=sections)


class Model(Decoder[Params, Weights]):
    """All layers are alike."""

    @property
    def n_deepstack(self) -> int | None:
        return self.params.n_deepstack if self.params.n_deepstack >= 0 else None

    def rope(self, i: int) -> RopeParams:
        return self.params.turned()

    def layer(self, x: Tensor, i: int, p: Pass, cache: LayerCache | None) -> Tensor:
        """As any, and behind it what pictures bring for it."""
        x, more = super().layer(x, i, p, cache), p.deepstack(i)
        if more is None:
            return x
        last = i == self.params.n_layer - 1
        return ops.add(x, p.prune(more) if last else more).named("deepstack_out", i)
