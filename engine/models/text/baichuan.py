"""Baichuan and Baichuan 2 7B: Llama; the 13B, whose scores fall with the distance, is refused.

Baichuan 2023; tensor names and keys by the GGUF spec. No key tells the two from one another, but
the 13B has 40 layers.
"""

from dataclasses import dataclass

from engine.models.text import llama
from engine.models.text.llama import Model, Weights

__all__ = ["Model", "Params", "Weights"]

LAYERS_OF_13B = 40


@dataclass(frozen=True, kw_only=True)
class Params(llama.Params):
    def problem(self) -> str:
        """A contradiction among the parameters, or what cannot be computed, or ""."""
        if self.n_block == LAYERS_OF_13B:
            return (
                f"block_count is {self.n_block}, as in Baichuan 13B: scores that fall with the"
                " distance (ALiBi) are not computed here; open the 7B"
            )
        return super().problem()
