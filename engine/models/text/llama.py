"""Llama 1 to 3.2, SmolLM2, Mistral 7B, Mixtral, InternLM 2, XVERSE: RMS norms, SwiGLU.

Touvron et al. 2023; tensor names and keys by the GGUF spec. Rope pairs are (2i, 2i+1): the
converter permutes q and k.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.models.constants import Constant, rope_factors
from engine.models.decoder import PlainWeights
from engine.models.routed import RoutedDecoder, RoutedParams


@dataclass(frozen=True, kw_only=True)
class Params(RoutedParams):
    def constants(self) -> Sequence[Constant]:
        return [rope_factors(self.rope_dim)]


Weights = PlainWeights[PreNormBlock[SelfAttention, FeedForward | Experts]]


class Model(RoutedDecoder[Params, Weights]):
    neox = False
