"""Qwen3.5, Qwen3.6: gated delta nets, every fourth layer gated attention; NeoX pairs.

Qwen Team 2026; tensor names and keys by the GGUF spec. Norm weights in the file already include the
+1, but for those of the delta nets.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar, TypeVar

from engine.layers.attention import GatedQueryAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.recurrent import GatedDeltaNet, SplitGates
from engine.layers.rope import RopeParams
from engine.layers.spec import RecurrenceSpec
from engine.models.decoder import PlainWeights, W
from engine.models.recurrent import RecurrentDecoder, RecurrentParams
from engine.models.text.qwen2vl import SectionedParams
from engine.weights.params import Meta, Range


@dataclass(frozen=True, kw_only=True)
class Params(RecurrentParams, SectionedParams):
    reordered: Annotated[bool, Meta("ssm.v_head_reordered", Range(0, 1))] = True


Weights = PlainWeights[
    PreNormBlock[GatedQueryAttention, FeedForward]
    | PreNormBlock[GatedDeltaNet[SplitGates], FeedForward]
]


D = TypeVar("D", bound=Params)


class DeltaDecoder(RecurrentDecoder[D, W]):
    """Heads of values take those of keys by turns, or neighbours share one, as in files that Ollama
    made and did not reorder.
    """

    tiled: ClassVar[bool] = True

    @cached_property
    def turned(self) -> RopeParams:
        return self.params.sectioned(self.params.rope(self.neox), "interleaved")

    def recurrence(self) -> RecurrenceSpec:
        return replace(super().recurrence(), tiled=self.tiled and self.params.reordered)


class Model(DeltaDecoder[Params, Weights]):
    """Layers differ in what mixes their tokens."""
