"""SmolLM3: Llama, every fourth layer of which knows no positions.

Hugging Face 2025; tensor names and keys by the GGUF spec, which has none for the four.
"""

from engine.layers.rope import RopeParams
from engine.models.text import llama
from engine.models.text.llama import Params, Weights

__all__ = ["Model", "Params", "Weights"]

NO_ROPE_EVERY = 4


class Model(llama.Model):
    """Layers differ in whether they turn."""

    def rope(self, i: int) -> RopeParams | None:
        return None if (i + 1) % NO_ROPE_EVERY == 0 else super().rope(i)
