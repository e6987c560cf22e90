"""What a row of the table of text models is made of: a tiny model of a class of transformers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

Config = dict[str, Any]
ABSENT = object()
V, T = 96, 96
"""Of each row: its vocabulary, and the tokens of its two texts."""

BASE: Mapping[str, Any] = {
    "vocab_size": V,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "attn_implementation": "eager",
}


def same(config: Config) -> Config:
    """As it is."""
    return config


@dataclass(frozen=True)
class Recipe:
    """`model` is a class of transformers, its config `BASE` with `config` over it (ABSENT: without
    that key). `edit` changes the saved config.json, which the converter reads; with `hparams` it
    gets the result as it is, without transformers' reading of it. `around` is the config of a class
    that sees too: what is said above is then its text_config.

    Saved matrices with `swapped` in their names get their axes swapped, as published files have
    them; `renamed` are parts of names that those call otherwise. `peaked` multiplies parameters by
    a part of their names, so that attention looks at few tokens; `convert` is what the converter is
    given besides, `beside` holds JSON files for the model's folder. One that `encodes` has no
    logits: its last hidden states are taken; of one that `ranks` those of its labels, [2, labels].
    """

    model: str
    config: Mapping[str, Any] = field(default_factory=dict)
    peaked: Mapping[str, float] = field(default_factory=lambda: PROJECTIONS)
    edit: Callable[[Config], Config] = same
    hparams: bool = False
    convert: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, Any] = field(default_factory=dict)
    encodes: bool = False
    ranks: bool = False
    swapped: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)
    seed: int = 1
    around: Mapping[str, Any] | None = None

    @property
    def settings(self) -> Config:
        """All of the config."""
        whole = {**BASE, **self.config}
        return {key: value for key, value in whole.items() if value is not ABSENT}


PROJECTIONS = {"q_proj": 3.0, "k_proj": 3.0}
"""Where queries and keys are as they are projected."""
NORMS = {"q_norm": 2.0, "k_norm": 2.0}
"""Where they are normalised."""


def recipes() -> dict[str, Recipe]:
    """Those of all modules in the folder, by row."""
    from tests.goldens.text import recipes as folder

    found: dict[str, Recipe] = {}
    for module in iter_modules(folder.__path__):
        found |= import_module(f"{folder.__name__}.{module.name}").RECIPES
    return found
