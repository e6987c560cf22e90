"""Baichuan and Baichuan 2: the 7B is Llama, in the 13B scores fall with the distance (ALiBi).

Baichuan 2023; tensor names and keys by the GGUF spec. No key distinguishes the two, but
the 13B has 40 layers.
"""

from dataclasses import dataclass, replace

from engine.layers.rope import RopeParams
from engine.layers.spec import AttentionSpec
from engine.models.routed import RoutedDecoder
from engine.models.text import llama
from engine.models.text.bloom import MOST
from engine.models.text.llama import Weights

__all__ = ["Model", "Params", "Weights"]

LAYERS_OF_13B = 40


@dataclass(frozen=True, kw_only=True)
class Params(llama.Params):
    @property
    def is_large(self) -> bool:
        return self.n_block == LAYERS_OF_13B

    def attention(self, rope: RopeParams | None, i: int = 0) -> AttentionSpec:
        """Scores that fall, of the 13B."""
        attention = super().attention(rope, i)
        return replace(attention, alibi=MOST) if self.is_large else attention


class Model(RoutedDecoder[Params, Weights]):
    neox = False

    def rope(self, i: int) -> RopeParams | None:
        return None if self.params.is_large else self.turned
