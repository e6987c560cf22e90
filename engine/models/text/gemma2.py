"""Gemma 2: sandwich norms, every other layer windowed, scores and logits capped, GeGLU.

Gemma Team 2024; keys and names by the GGUF spec. Norm weights in the file already include the +1.
"""

from dataclasses import dataclass, replace
from math import sqrt
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import SandwichBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.spec import GEGLU, AttentionSpec
from engine.layers.step import Pass
from engine.models.decoder import PlainWeights
from engine.models.windowed import WINDOW, WindowedDecoder, WindowedParams
from engine.weights.params import Meta, Range

CAP = Range(0, 1e6)
LAYERS_27B = 46


@dataclass(frozen=True, kw_only=True)
class Params(WindowedParams):
    every = 2

    window: Annotated[int, Meta("attention.sliding_window", WINDOW)] = 4096
    score_cap: Annotated[float, Meta("attn_logit_softcapping", CAP)] = 50.0
    softcap: Annotated[float, Meta("final_logit_softcapping", CAP)] = 30.0

    @property
    def scale(self) -> float:
        """The factor of the scores; the 27B model scales by its embedding instead."""
        if self.n_layer == LAYERS_27B:
            return sqrt(self.n_head(0) / self.n_embd)
        return 1 / sqrt(self.head_dim)


Weights = PlainWeights[SandwichBlock[SelfAttention, FeedForward]]


class Model(WindowedDecoder[Params, Weights]):
    """Layers differ in what they see."""

    gated = GEGLU

    def attention(self, i: int) -> AttentionSpec:
        params = self.params
        return replace(super().attention(i), scale=params.scale, softcap=params.score_cap)

    def embed(self, p: Pass) -> Tensor:
        return ops.scale(super().embed(p), sqrt(self.params.n_embd)).named("inp_scaled")

    def logits(self, x: Tensor) -> Tensor:
        logits = super().logits(x)
        if self.params.softcap > 0:
            logits = ops.softcap(logits, self.params.softcap).named("result_output")
        return logits
