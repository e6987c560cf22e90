"""Nemotron 3 Nano, Super: Nemotron-H whose layers of feed-forwards have experts.

NVIDIA 2025; tensor names and keys by the GGUF spec. With a latent the experts look at a smaller
vector, and what they make is brought back.
"""

from dataclasses import dataclass, replace
from typing import Annotated

from engine.graph import ops
from engine.graph.ops.experts import Scoring
from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import FeederBlock, MixerBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import PlainFeedForward
from engine.layers.linear import Linear
from engine.layers.recurrent import Mamba2
from engine.layers.spec import BlockSpec
from engine.models.decoder import PlainWeights
from engine.models.routed import RoutedParams
from engine.models.text import nemotron_h
from engine.models.text.nemotron_h import PartsDecoder
from engine.weights.bind import Name


@dataclass(frozen=True, kw_only=True)
class Params(nemotron_h.Params, RoutedParams):
    score = Scoring.SIGMOID


@dataclass(frozen=True)
class LatentExperts(Experts):
    """`into` makes what the experts see, `back` what all make of what they give."""

    into: Annotated[Linear, Name("ffn_latent_down")]
    back: Annotated[Linear, Name("ffn_latent_up")]

    def __call__(self, x: Tensor, i: int, spec: BlockSpec) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        out = self.routed(self.into(x, "ffn_latent_down", i), x, i, spec)
        out = self.back(out, "ffn_latent_up", i)
        return out if self.shared is None else ops.add(out, self.shared(x, i, spec))


Weights = PlainWeights[
    MixerBlock[SelfAttention]
    | MixerBlock[Mamba2]
    | FeederBlock[LatentExperts | Experts | PlainFeedForward]
]


class Model(PartsDecoder[Params, Weights]):
    """Layers are of three kinds."""

    def spec(self, i: int) -> BlockSpec:
        return replace(super().spec(i), route=self.params.route(i))
