"""Pixtral: the tower of Mistral 3 without merging, and a projector with biases."""

from __future__ import annotations

from tests.goldens.vision.files.mistral3 import VOCABULARY, pixtral_tensors
from tests.goldens.vision.files.text import TextSizes, llama
from tests.goldens.vision.files.tower import CLIP_MEAN, CLIP_STD, TowerSizes
from tests.goldens.vision.layout import File, State

TEXT = TextSizes()
TOWER = TowerSizes(side=56, width=32, heads=2, feed_forward=64, eps=1e-5)
"""`side` is the longest edge."""


def text(state: State) -> File:
    """The language model by itself."""
    return llama(state, TEXT, VOCABULARY)


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower."""
    keys = TOWER.mmproj("pixtral", TEXT.embedding, CLIP_MEAN, CLIP_STD)
    tensors = pixtral_tensors(state, TOWER, VOCABULARY)
    return File("clip", {"clip.use_silu": True} | keys, tensors)
