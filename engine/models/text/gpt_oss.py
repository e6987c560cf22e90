"""gpt-oss 20b and 120b: experts in four-bit floats, sinks, every other layer windowed, YaRN.

OpenAI 2025; tensor names and keys by the GGUF spec. YaRN's ramp is not rounded to whole pairs, and
the activation has bounds.
"""

from dataclasses import dataclass, replace
from typing import Annotated

from engine.graph import ops
from engine.graph.ops.experts import Scoring
from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.rope import RopeParams
from engine.layers.spec import GatedActivation
from engine.models.decoder import PlainWeights
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.models.windowed import WindowedDecoder, WindowedParams
from engine.weights.bind import Name

ALPHA, LIMIT = 1.702, 7.0
"""Of the activation: no key has them."""


def swiglu_limit(gate: Tensor, up: Tensor | None) -> Tensor:
    """SwiGLU of gate and up within their bounds."""
    assert up is not None
    return ops.swiglu_limit(gate, up, ALPHA, LIMIT)


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams, WindowedParams):
    every = 2
    score = Scoring.LATE_SOFTMAX
    normalised = False


@dataclass(frozen=True)
class SinkAttention(SelfAttention):
    """A score a head joins its softmax and mixes in nothing (Xiao et al. 2023)."""

    sinks: Annotated[Tensor, Name("attn_sinks.weight", alt="attn_sinks")]

    def sink(self) -> Tensor:
        return self.sinks


Weights = PlainWeights[PreNormBlock[SinkAttention, Experts]]


class Model(RoutedDecoder[Params, Weights], WindowedDecoder[Params, Weights]):
    """Layers differ in what they see."""

    gated = GatedActivation(swiglu_limit, "ffn_swiglu_oai")

    def rope(self, i: int) -> RopeParams:
        rope = self.params.rope(neox=True)
        return rope if rope.yarn is None else replace(rope, yarn=replace(rope.yarn, truncate=False))
