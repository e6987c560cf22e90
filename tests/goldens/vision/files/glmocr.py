"""GLM-OCR: norms of queries and keys, biases, and no learned positions."""

from __future__ import annotations

from tests.goldens.vision.files import glm4v
from tests.goldens.vision.layout import File, State

TEXT, VOCABULARY = glm4v.TEXT, glm4v.VOCABULARY
TOWER = glm4v.TOWER._replace(feed_forward=64)


def text(state: State) -> File:
    """The language model by itself."""
    return glm4v.text(state)


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower."""
    return glm4v.mmproj(state, TOWER)
