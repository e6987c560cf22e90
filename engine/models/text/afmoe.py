"""Trinity Nano, Mini, Large: sandwich norms, gated attention, experts; windowed layers alone turn.

Arcee AI 2025; tensor names and keys by the GGUF spec. The first layers are dense; a bias corrects
the choice of experts, whose scores are sigmoids. Embeddings are multiplied by the root of their
length, which no key says.
"""

from dataclasses import dataclass
from math import sqrt

from engine.graph import ops
from engine.graph.ops.experts import Scoring
from engine.graph.tensor import Tensor
from engine.layers.attention import GatedAttention
from engine.layers.blocks import SandwichBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.rope import RopeParams
from engine.layers.step import Pass
from engine.models.decoder import PlainWeights
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.models.windowed import WindowedDecoder, WindowedParams


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams, WindowedParams):
    every = 4
    score = Scoring.SIGMOID


Weights = PlainWeights[SandwichBlock[GatedAttention, Experts | FeedForward]]


class Model(RoutedDecoder[Params, Weights], WindowedDecoder[Params, Weights]):
    """Layers differ in what they see, whether they turn, and whether they have experts."""

    def rope(self, i: int) -> RopeParams | None:
        return self.turned if self.params.is_windowed(i) else None

    def embed(self, p: Pass) -> Tensor:
        return ops.scale(super().embed(p), sqrt(self.params.n_embd)).named("inp_scaled")
