"""Gemma 4's small models: embeddings of each layer, and rows of a picture that see none behind."""

from __future__ import annotations

from tests.goldens.vision.files import gemma4
from tests.goldens.vision.layout import File, State

TEXT, VOCABULARY = gemma4.TEXT, gemma4.VOCABULARY
PER_LAYER = 8


def text(state: State) -> File:
    """The language model by itself."""
    return gemma4.text(state, PER_LAYER)


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower."""
    return gemma4.mmproj(state, is_standard=False)
