"""OLMo 2 and Olmo 3: norms behind attention and feed-forward, and of all queries or keys together.

Allen Institute for AI 2024, 2025; tensor names and keys by the GGUF spec. In Olmo 3 three layers of
four are windowed, and YaRN belongs to the others.
"""

from dataclasses import dataclass, replace

from engine.layers.attention import WidthNormedAttention
from engine.layers.blocks import PostNormBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.rope import RopeParams
from engine.models.decoder import PlainWeights
from engine.models.windowed import WindowedDecoder, WindowedParams


@dataclass(frozen=True, kw_only=True)
class Params(WindowedParams):
    every = 4


Weights = PlainWeights[PostNormBlock[WidthNormedAttention, FeedForward]]


class Model(WindowedDecoder[Params, Weights]):
    """Layers differ in what they see and how they turn."""

    def rope(self, i: int) -> RopeParams:
        rope = self.params.rope(neox=True)
        return replace(rope, scale=1.0, yarn=None) if self.params.is_windowed(i) else rope
