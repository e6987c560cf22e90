"""Tiny models that no class of transformers computes: keys and tensors as a file has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules

Key = int | float | bool | str | list[int] | list[float] | list[str]
Shape = tuple[int, ...]
"""In ggml's order: what a product reads comes first."""

PROMPT = 47
"""Tokens, which no plan has as its size."""
PEAKED = {"attn_q.": 3.0, "attn_k.": 3.0}


@dataclass(frozen=True)
class Direct:
    """A file's keys, without its `architecture` before them but for those of the tokenizer, and its
    tensors; `peaked` multiplies those with a part of their names, so that attention looks at few
    tokens; `values` are those of vectors that are not drawn. One that `encodes` has no logits: its
    rows are taken; of one that `ranks` the scores of its labels. One that `answers` has an encoder
    and a decoder: the first PROMPT tokens of a text are the prompt, the decoder reads the others.
    """

    architecture: str
    keys: Mapping[str, Key]
    tensors: Mapping[str, Shape]
    peaked: Mapping[str, float] = field(default_factory=lambda: PEAKED)
    seed: int = 1
    values: Mapping[str, Sequence[float]] = field(default_factory=dict)
    encodes: bool = False
    ranks: bool = False
    answers: bool = False


def directs() -> dict[str, Direct]:
    """Those of all modules in the folder, by row."""
    found: dict[str, Direct] = {}
    for module in iter_modules(__path__):
        found |= import_module(f"{__name__}.{module.name}").RECIPES
    return found
