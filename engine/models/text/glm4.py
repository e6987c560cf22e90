"""GLM-4-0414, GLM-4.1V, GLM-OCR: sandwich norms, gate and up of one matrix, half of a head turns.

Zhipu AI 2025; tensor names and keys by the GGUF spec. Rope pairs are (2i, 2i+1); in models with
pictures converters make NeoX pairs of them, which turn by time, height and width.
"""

from functools import cached_property

from engine.layers.attention import SelfAttention
from engine.layers.blocks import SandwichBlock
from engine.layers.feed_forward import FusedFeedForward
from engine.layers.rope import RopeParams
from engine.models.decoder import Decoder, PlainWeights
from engine.models.text.qwen2vl import SectionedParams

Params = SectionedParams


Weights = PlainWeights[SandwichBlock[SelfAttention, FusedFeedForward]]


class Model(Decoder[Params, Weights]):
    neox = False

    @cached_property
    def turned(self) -> RopeParams:
        return self.params.sectioned(self.params.rope(self.neox))
