"""Llama Embed Nemotron: a Llama whose tokens see the whole text.

Babakhin et al. 2025; tensor names and keys by the GGUF spec. Pairs are (2i, 2i+1).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.models.constants import Constant, rope_factors
from engine.models.decoder import DecoderParams
from engine.models.encoder import NormedEncoder
from engine.models.text.eurobert import Weights

__all__ = ["Model", "Params", "Weights"]


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    def constants(self) -> Sequence[Constant]:
        return [rope_factors(self.rope_dim)]


class Model(NormedEncoder[Params, Weights]):
    neox = False
