"""PLaMo 2 1B, 8B, 2.1, Translate: Mamba with norms and attention by turns, between sandwich norms.

Preferred Networks 2025; tensor names and keys by the GGUF spec. NeoX pairs. A head of Mamba has one
decay for its channels, one of attention weights of its own in the norms of queries and keys.
"""

from dataclasses import dataclass

from engine.layers.attention import OwnNormedAttention
from engine.layers.blocks import UnsuffixedSandwichBlock
from engine.layers.feed_forward import FusedFeedForward
from engine.layers.recurrent import HeadMamba
from engine.models.decoder import PlainWeights
from engine.models.kept import State
from engine.models.recurrent import RecurrentDecoder, RecurrentParams


@dataclass(frozen=True, kw_only=True)
class Params(RecurrentParams):
    def carried(self) -> State:
        """The state of such a layer: its convolution sees the values alone."""
        return State(self.inner, self.kernel, self.recurrence().elements)


Weights = PlainWeights[
    UnsuffixedSandwichBlock[HeadMamba, FusedFeedForward]
    | UnsuffixedSandwichBlock[OwnNormedAttention, FusedFeedForward]
]


class Model(RecurrentDecoder[Params, Weights]):
    """Layers differ in what mixes their tokens."""
