"""DeepSeek-V3.2, GLM-5, GLM-5.1, GLM-5.2: DeepSeek-V2's blocks, and an index of tokens to look at.

DeepSeek-AI 2025; tensor names and keys by the GGUF spec. Tokens look at the `top_k` others that the
index rates highest: up to as many at all of them, so that contexts of that length need no index. It
is left out, and longer contexts are refused.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.models.text import deepseek2
from engine.models.text.deepseek2 import Model, Weights
from engine.weights.params import TOKENS, Meta

__all__ = ["Model", "Params", "Weights"]


@dataclass(frozen=True, kw_only=True)
class Params(deepseek2.Params):
    top_k: Annotated[int, Meta("attention.indexer.top_k", TOKENS)]

    @property
    def n_ctx_exact(self) -> int:
        return self.top_k
