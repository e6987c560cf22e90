"""Muse Glimmer, text: sandwich norms, gated attention, rope in windowed layers alone.

Meta 2026; tensor names and keys by the GGUF spec. Norm weights in the file already include the +1;
those of queries are a constant.
"""

from dataclasses import dataclass, replace
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import GatedAttention
from engine.layers.blocks import SandwichBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import weightless
from engine.layers.rope import RopeParams
from engine.layers.spec import BlockSpec
from engine.layers.step import Pass
from engine.models.decoder import PlainWeights
from engine.models.windowed import WindowedDecoder, WindowedParams
from engine.weights.params import Meta, Range

POST_EPS = 1e-8
"""Of the norms behind attention and feed-forward."""


@dataclass(frozen=True, kw_only=True)
class Params(WindowedParams):
    logit_scale: Annotated[float, Meta("logit_scale", Range(1e-6, 1e6))] = 1.0
    softcap: Annotated[float, Meta("final_logit_softcapping", Range(0, 1e6))] = 0.0


Weights = PlainWeights[SandwichBlock[GatedAttention, FeedForward]]


class Model(WindowedDecoder[Params, Weights]):
    """Layers differ in what they see and whether they turn."""

    neox = False

    def rope(self, i: int) -> RopeParams | None:
        return self.turned if self.params.is_windowed(i) else None

    def spec(self, i: int) -> BlockSpec:
        return replace(super().spec(i), post_eps=POST_EPS)

    def embed(self, p: Pass) -> Tensor:
        return weightless(super().embed(p), self.params.eps, "inp_norm")

    def logits(self, x: Tensor) -> Tensor:
        logits = ops.scale(super().logits(x), self.params.logit_scale)
        if self.params.softcap > 0:
            logits = ops.softcap(logits, self.params.softcap)
        return logits.named("result_output")
