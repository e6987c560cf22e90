"""Encoders: blocks in which each token sees the whole text; their rows are the result."""

from collections.abc import Sequence
from typing import TypeVar

from engine.models.base import Output
from engine.models.decoder import DecoderParams, LayerStack, LayerStackWeights
from engine.models.kept import Kept, Nothing

P = TypeVar("P", bound=DecoderParams)
S = TypeVar("S", bound=LayerStackWeights)


class TextEncoder(LayerStack[P, S]):
    """Nothing is kept between steps: a text is one of them."""

    gives = frozenset({Output.EMBEDDINGS})
    whole = True

    def kept(self) -> Sequence[Kept]:
        return [Nothing()] * self.params.n_layer
