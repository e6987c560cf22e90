"""Ministral 3 and newer Mistral Small: Llama with YaRN, and queries that rise with their position.

Mistral AI 2025; tensor names and keys by the GGUF spec. Pairs are (2i, 2i+1): the converter
permutes q and k.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from typing import Annotated

from engine.layers.rope import RopeParams
from engine.layers.spec import AttentionSpec, Temperature
from engine.models.decoder import Decoder, DecoderParams
from engine.models.text.llama import Weights
from engine.weights.params import Meta, Range

__all__ = ["Model", "Params", "Weights"]

TURNS = Range(1e-3, 1e6)
"""Of a pair within the context that YaRN's ramp begins or ends at."""


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    rise: Annotated[
        float, Meta("attention.temperature_scale", Range(0, 1e3), alt=("rope.scaling_beta",))
    ] = 0.0
    beta_fast: Annotated[float, Meta("rope.scaling.yarn_beta_fast", TURNS)] = 32.0
    beta_slow: Annotated[float, Meta("rope.scaling.yarn_beta_slow", TURNS)] = 1.0

    def temperature(self) -> Temperature | None:
        """Counted in lengths of the context before scaling; files without one have none."""
        if not self.rise or not self.rope_original:
            return None
        return Temperature(self.rise, self.rope_original)


class Model(Decoder[Params, Weights]):
    @cached_property
    def turned(self) -> RopeParams:
        """Scaled by YaRN without its magnitude."""
        params = self.params
        rope = params.rope(neox=False)
        if rope.yarn is None:
            return rope
        magnitude = 1 / (1 + 0.1 * log(params.rope_factor or 1.0))
        yarn = replace(
            rope.yarn, attention=magnitude, beta_fast=params.beta_fast, beta_slow=params.beta_slow
        )
        return replace(rope, yarn=yarn)

    def attention(self, i: int) -> AttentionSpec:
        return replace(super().attention(i), temperature=self.params.temperature())
