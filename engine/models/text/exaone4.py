"""EXAONE 4: norms behind attention and feed-forward, and of queries and keys per head.

LG AI Research 2025; tensor names and keys by the GGUF spec. Where layers are windowed (32B), the
others know no positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.layers.attention import NormedAttention
from engine.layers.blocks import PostNormBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.rope import RopeParams
from engine.models.constants import Constant, rope_factors
from engine.models.decoder import PlainWeights
from engine.models.windowed import WindowedDecoder, WindowedParams


@dataclass(frozen=True, kw_only=True)
class Params(WindowedParams):
    every = 4

    def constants(self) -> Sequence[Constant]:
        return [rope_factors(self.rope_dim)]


Weights = PlainWeights[PostNormBlock[NormedAttention, FeedForward]]


class Model(WindowedDecoder[Params, Weights]):
    """Layers differ in what they see and whether they turn."""

    def rope(self, i: int) -> RopeParams | None:
        return None if self.params.window and not self.params.is_windowed(i) else self.turned
