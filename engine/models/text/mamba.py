"""Mamba, FalconMamba: selective state spaces whose channels decay each by itself.

Gu & Dao 2023; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.blocks import MixerBlock
from engine.layers.recurrent import Mamba
from engine.layers.spec import RecurrenceSpec
from engine.models.decoder import DecoderParams, PlainWeights
from engine.models.kept import State
from engine.models.recurrent import RecurrentDecoder, RecurrentParams
from engine.weights.params import Meta, Range


@dataclass(frozen=True, kw_only=True)
class Params(RecurrentParams):
    """Hyperparameters by their GGUF keys; the rank of steps is the weights'."""

    normed: Annotated[bool, Meta("ssm.dt_b_c_rms", Range(0, 1))] = False

    def problem(self) -> str:
        """A contradiction among the parameters, or ""; a channel is a head."""
        return DecoderParams.problem(self) if any(self.heads) else ""

    def recurrence(self) -> RecurrenceSpec:
        return RecurrenceSpec(1, self.size, self.inner, 1, normed=self.normed)

    def carried(self) -> State:
        return State(self.inner, self.kernel, self.inner * self.size)


Weights = PlainWeights[MixerBlock[Mamba]]


class Model(RecurrentDecoder[Params, Weights]):
    def rope(self, i: int) -> None:
        return None

    def state(self, i: int) -> State:
        return self.params.carried()
