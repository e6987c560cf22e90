"""Phi-3, 3.5 and 4: Llama with joint projections, a window in all layers, and LongRoPE.

Microsoft 2024; keys and names by the GGUF spec. LongRoPE (Ding et al. 2024) has factors for texts
up to the original context, and others for longer ones. Which, the length of the context decides:
keys in the cache cannot change in the middle of a text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, TypeVar

from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FusedFeedForward
from engine.layers.rope import RopeParams
from engine.models.constants import Constant, factors_by_length, rope_factors_by_length
from engine.models.decoder import SCALINGS, DecoderWeights, PlainWeights
from engine.models.windowed import WindowedDecoder, WindowedParams
from engine.weights.params import Meta, OneOf, Range


@dataclass(frozen=True, kw_only=True)
class Params(WindowedParams):
    """Hyperparameters by their GGUF keys; `magnitude` multiplies cosines and sines."""

    rope_scaling: Annotated[
        str, Meta("rope.scaling.type", OneOf((*SCALINGS.words, "longrope")))
    ] = "linear"
    magnitude: Annotated[float, Meta("rope.scaling.attn_factor", Range(1e-3, 1e3))] = 1.0

    def constants(self) -> Sequence[Constant]:
        return rope_factors_by_length(self.rope_dim)


Weights = PlainWeights[PreNormBlock[SelfAttention, FusedFeedForward]]


P = TypeVar("P", bound=Params)
W = TypeVar("W", bound=DecoderWeights)


class LongRopeDecoder(WindowedDecoder[P, W]):
    """All layers turn alike."""

    @cached_property
    def turned(self) -> RopeParams:
        """By the factors for the context's length where the file has them."""
        params = self.params
        factors = factors_by_length(self.constants, params.is_long(self.n_ctx))
        return params.rope(True, factors, params.magnitude if factors else 1.0)


class Model(LongRopeDecoder[Params, Weights]):
    """All layers are alike."""
