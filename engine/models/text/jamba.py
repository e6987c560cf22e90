"""Jamba 1.5, 1.6, 1.7, also 3B: Mamba with norms of steps, b and c, attention in some layers.

Lieber et al. 2024 (AI21 Labs); tensor names and keys by the GGUF spec. Attention knows no
positions. Some layers have experts, whose weights are not normalised.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.recurrent import NormedMamba
from engine.models.decoder import PlainWeights
from engine.models.recurrent import RecurrentDecoder
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.models.text import mamba
from engine.weights.params import COUNT, Meta


@dataclass(frozen=True, kw_only=True)
class Params(mamba.Params, RoutedParams):
    """Hyperparameters by their GGUF keys."""

    normalised = False

    heads: Annotated[tuple[int, ...], Meta("attention.head_count", COUNT, by_layer=True)]

    def problem(self) -> str:
        """A contradiction among the parameters, or "": a channel is a head."""
        return RoutedParams.problem(self)


Weights = PlainWeights[
    PreNormBlock[NormedMamba, Experts | FeedForward]
    | PreNormBlock[SelfAttention, Experts | FeedForward]
]


class Model(RecurrentDecoder[Params, Weights], RoutedDecoder[Params, Weights]):
    """Layers differ in what mixes their tokens, and in what feeds them."""

    def rope(self, i: int) -> None:
        return None
