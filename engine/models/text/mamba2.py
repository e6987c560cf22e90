"""Mamba-2, Codestral Mamba: selective state spaces in every layer, and nothing else.

Dao & Gu 2024; tensor names and keys by the GGUF spec.
"""

from engine.layers.blocks import MixerBlock
from engine.layers.recurrent import Mamba2
from engine.models.decoder import PlainWeights
from engine.models.kept import State
from engine.models.recurrent import RecurrentDecoder, RecurrentParams

Params = RecurrentParams


Weights = PlainWeights[MixerBlock[Mamba2]]


class Model(RecurrentDecoder[Params, Weights]):
    def rope(self, i: int) -> None:
        return None

    def state(self, i: int) -> State:
        return self.params.carried()
