"""Llama 4, text: experts in some layers, attention in chunks, and every fourth layer without rope.

Meta 2025; tensor names and keys by the GGUF spec. Rope pairs are (2i, 2i+1), as in the original.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from engine.graph.ops.experts import Scoring
from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.rope import RopeParams
from engine.layers.spec import AttentionSpec, RouteSpec, Temperature
from engine.models.constants import Constant, rope_factors
from engine.models.decoder import PlainWeights
from engine.models.kept import Cells, Chunk, Kept
from engine.models.routed import SOME, RoutedDecoder, RoutedParams
from engine.models.windowed import WINDOW
from engine.weights.params import TOKENS, Meta, Range

NO_ROPE_EVERY = 4
EXPERTS_OF_MAVERICK = 128
"""With as many, queries and keys are not normalised."""


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams):
    """Hyperparameters by their GGUF keys; files of llama.cpp leave most out. Where the window is 0,
    all layers turn and see everything.
    """

    score = Scoring.SIGMOID
    normalised = False

    used: Annotated[tuple[int, ...], Meta("expert_used_count", SOME, by_layer=True)] = (1,)
    window: Annotated[int, Meta("attention.sliding_window", WINDOW)] = 8192
    chunk: Annotated[int, Meta("attention.chunk_size", TOKENS)] = 8192
    floor: Annotated[int, Meta("attention.floor_scale", TOKENS)] = 8192
    rise: Annotated[float, Meta("attention.scale", Range(0, 1e3))] = 0.1

    def has_rope(self, i: int) -> bool:
        """True if layer i turns queries and keys, and sees no further than its chunk."""
        return self.window == 0 or (i + 1) % NO_ROPE_EVERY != 0

    def constants(self) -> Sequence[Constant]:
        return [rope_factors(self.rope_dim)]

    def route(self, i: int) -> RouteSpec | None:
        route = super().route(i)
        return route and replace(route, fed=True)


Weights = PlainWeights[PreNormBlock[SelfAttention, Experts | FeedForward]]


class Model(RoutedDecoder[Params, Weights]):
    """Layers differ in what they see, how they turn, and whether they have experts."""

    neox = False

    def rope(self, i: int) -> RopeParams | None:
        return self.turned if self.params.has_rope(i) else None

    def attention(self, i: int) -> AttentionSpec:
        """Where nothing turns, queries rise with their position."""
        params, attention = self.params, super().attention(i)
        if params.has_rope(i):
            eps = None if params.n_expert == EXPERTS_OF_MAVERICK else params.eps
            return replace(attention, bare_eps=eps)
        return replace(attention, temperature=Temperature(params.rise, params.floor, offset=1))

    def kept(self) -> Sequence[Kept]:
        cells = [cells for cells in super().kept() if isinstance(cells, Cells)]
        params = self.params
        if params.window == 0:
            return cells
        return [Chunk(c, params.chunk) if params.has_rope(i) else c for i, c in enumerate(cells)]
