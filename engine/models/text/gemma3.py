"""Gemma 3, text: sandwich norms, q/k norms, five windowed layers to each global one, GeGLU.

Gemma Team 2025; keys and names by the GGUF spec. Norm weights in the file already include the +1.
"""

from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import NormedAttention
from engine.layers.blocks import SandwichBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.rope import RopeParams
from engine.layers.spec import GEGLU, AttentionSpec
from engine.layers.step import Pass
from engine.models.decoder import ROPE_BASE, PlainWeights
from engine.models.windowed import WindowedDecoder, WindowedParams
from engine.weights.params import EPSILON, Meta, Range

LAYERS_27B = 62


@dataclass(frozen=True, kw_only=True)
class Params(WindowedParams):
    every = 6

    eps: Annotated[float, Meta("attention.layer_norm_rms_epsilon", EPSILON)] = 1e-6
    key_length: Annotated[int, Meta("attention.key_length", Range(1, 1 << 16))] = 256
    rope_base: Annotated[float, Meta("rope.freq_base", ROPE_BASE)] = 1e6
    rope_base_local: Annotated[float, Meta("rope.freq_base_swa", ROPE_BASE)] = 1e4
    softcap: Annotated[float, Meta("final_logit_softcapping", Range(0, 1e6))] = 0.0

    @property
    def scale(self) -> float:
        """The factor of the scores; the 27B model scales by its embedding instead."""
        if self.n_layer == LAYERS_27B:
            return 1 / sqrt(self.n_embd / self.n_head(0))
        return 1 / sqrt(self.head_dim)

    def layer_rope(self, i: int) -> RopeParams:
        """Windowed layers rotate by the local base, unscaled."""
        if self.is_windowed(i):
            return RopeParams(self.rope_dim, self.rope_base_local, neox=True)
        rope = self.rope(neox=True)
        if rope.yarn is None:
            return rope
        attention = 1 / (1 + 0.1 * log(self.rope_factor or 1.0))
        return replace(rope, yarn=replace(rope.yarn, attention=attention, beta_fast=64.0))


Weights = PlainWeights[SandwichBlock[NormedAttention, FeedForward]]


class Model(WindowedDecoder[Params, Weights]):
    """Layers differ in what they see and how they turn."""

    gated = GEGLU

    def rope(self, i: int) -> RopeParams:
        return self.params.layer_rope(i)

    def attention(self, i: int) -> AttentionSpec:
        return replace(super().attention(i), scale=self.params.scale)

    def embed(self, p: Pass) -> Tensor:
        return ops.scale(super().embed(p), sqrt(self.params.n_embd)).named("inp_scaled")

    def logits(self, x: Tensor) -> Tensor:
        logits = super().logits(x)
        if self.params.softcap > 0:
            logits = ops.softcap(logits, self.params.softcap).named("result_output")
        return logits
