"""PLaMo 3 NICT 2B, 8B, 31B: sandwich norms, seven windowed layers to each full one, joint matrices.

Preferred Networks 2025; tensor names and keys by the GGUF spec. NeoX pairs; norms of queries and
keys. Windowed layers turn by their own base, unscaled.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.attention import NormedAttention
from engine.layers.blocks import UnsuffixedSandwichBlock
from engine.layers.feed_forward import FusedFeedForward
from engine.layers.rope import RopeParams
from engine.models.decoder import ROPE_BASE, PlainWeights
from engine.models.windowed import WindowedDecoder, WindowedParams
from engine.weights.params import Meta


@dataclass(frozen=True, kw_only=True)
class Params(WindowedParams):
    every = 8

    rope_base_local: Annotated[float, Meta("rope.freq_base_swa", ROPE_BASE)] = 1e4


Weights = PlainWeights[UnsuffixedSandwichBlock[NormedAttention, FusedFeedForward]]


class Model(WindowedDecoder[Params, Weights]):
    """Layers differ in what they see and how they turn."""

    def rope(self, i: int) -> RopeParams:
        params = self.params
        if not params.is_windowed(i):
            return self.turned
        return RopeParams(params.rope_dim, params.rope_base_local, self.neox)
