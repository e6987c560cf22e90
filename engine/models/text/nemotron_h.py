"""Nemotron Nano v2, Nemotron-H: layers of Mamba-2, of attention without rope, of a feed-forward.

NVIDIA 2025; tensor names and keys by the GGUF spec.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

from engine.layers.attention import SelfAttention
from engine.layers.blocks import FeederBlock, MixerBlock
from engine.layers.feed_forward import PlainFeedForward
from engine.layers.recurrent import Mamba2
from engine.layers.spec import RELU_SQR, RecurrenceSpec
from engine.models.decoder import PlainWeights, W
from engine.models.kept import Kept, Nothing
from engine.models.recurrent import RecurrentDecoder, RecurrentParams
from engine.weights.params import EPSILON, Meta

LEAST_STEP = 1e-3
"""Of time, to which the model bounds them; no key says so."""


@dataclass(frozen=True, kw_only=True)
class Params(RecurrentParams):
    """Hyperparameters by their GGUF keys. What a layer is its tensors say."""

    eps: Annotated[
        float,
        Meta("attention.layer_norm_rms_epsilon", EPSILON, alt=("attention.layer_norm_epsilon",)),
    ]

    def recurrence(self) -> RecurrenceSpec:
        return replace(super().recurrence(), least_step=LEAST_STEP)


Weights = PlainWeights[
    MixerBlock[SelfAttention] | MixerBlock[Mamba2] | FeederBlock[PlainFeedForward]
]


P = TypeVar("P", bound=Params)


class PartsDecoder(RecurrentDecoder[P, W]):
    """A layer is attention, a state space or a feed-forward."""

    gated = RELU_SQR

    def rope(self, i: int) -> None:
        return None

    def n_heads(self, layer: int) -> int:
        return 0 if self._feeds(layer) else super().n_heads(layer)

    def kept(self) -> Sequence[Kept]:
        """The state of each layer: keys and values, a recurrent state, or none."""
        layers = range(self.params.n_layer)
        return [Nothing() if self._feeds(i) else self.state(i) or self.cells(i) for i in layers]

    def _feeds(self, i: int) -> bool:
        """True if layer i has a feed-forward and nothing else."""
        return isinstance(self.weights.blocks[i], FeederBlock)


class Model(PartsDecoder[Params, Weights]):
    """Layers are of three kinds."""
