"""Mamba-2, Codestral Mamba: selective state spaces in every layer, and nothing else.

Dao & Gu 2024; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.blocks import MixerBlock
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.recurrent.mamba import Mamba2
from engine.models.kept import State
from engine.models.recurrent import RecurrentDecoder, RecurrentParams
from engine.weights.bind import Name


@dataclass(frozen=True, kw_only=True)
class Params(RecurrentParams):
    """Hyperparameters by their GGUF keys."""


@dataclass(frozen=True)
class Weights:
    """The whole model's tensors."""

    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    blocks: Annotated[list[MixerBlock[Mamba2]], Name("blk")]
    norm: Annotated[RMSNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]


class Model(RecurrentDecoder[Params, Weights]):
    """All layers are alike."""

    def rope(self, i: int) -> None:
        return None

    def state(self, i: int) -> State:
        return self.params.carried()
