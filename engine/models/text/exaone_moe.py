"""K-EXAONE: experts and a shared one after dense layers, norms of queries and keys, windows.

LG AI Research 2025; tensor names and keys by the GGUF spec. Windowed layers turn NeoX pairs, the
others know no positions. A bias corrects the choice of experts, whose scores are sigmoids.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.graph.ops.experts import Scoring
from engine.layers.attention import NormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.rope import RopeParams
from engine.models.constants import Constant, rope_factors
from engine.models.decoder import PlainWeights
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.models.windowed import WindowedDecoder, WindowedParams


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams, WindowedParams):
    every = 4
    score = Scoring.SIGMOID
    normalised = False

    def constants(self) -> Sequence[Constant]:
        return [rope_factors(self.rope_dim)]


Weights = PlainWeights[PreNormBlock[NormedAttention, Experts | FeedForward]]


class Model(RoutedDecoder[Params, Weights], WindowedDecoder[Params, Weights]):
    """Layers differ in what they see, whether they turn, and whether they have experts."""

    def rope(self, i: int) -> RopeParams | None:
        return self.turned if self.params.is_windowed(i) else None
