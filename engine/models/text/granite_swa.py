"""Granite Swash, also with experts: Granite with windows, sinks, and layers without positions.

IBM 2026; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts, SharedFusedFeedForward
from engine.layers.feed_forward import FeedForward
from engine.layers.rope import RopeParams
from engine.models.decoder import PlainWeights
from engine.models.text import granite
from engine.models.text.gpt_oss import SinkAttention
from engine.models.text.granite import GraniteDecoder
from engine.models.windowed import WindowedDecoder, WindowedParams
from engine.weights.params import Meta, Range


@dataclass(frozen=True, kw_only=True)
class Params(granite.Params, WindowedParams):
    """Hyperparameters by their GGUF keys; which layers turn: all where `turning` says nothing."""

    turning: Annotated[
        tuple[bool, ...], Meta("attention.rope_pattern", Range(0, 1), by_layer=True)
    ] = ()


@dataclass(frozen=True)
class FusedSharedExperts(Experts):
    """Experts whose shared one has its gate and up in one matrix."""

    shared: SharedFusedFeedForward | None


Weights = PlainWeights[PreNormBlock[SinkAttention, FeedForward | FusedSharedExperts]]


class Model(GraniteDecoder[Params, Weights], WindowedDecoder[Params, Weights]):
    """Layers differ in what they see and whether they turn."""

    def rope(self, i: int) -> RopeParams | None:
        return super().rope(i) if not self.params.turning or self.params.turning[i] else None
