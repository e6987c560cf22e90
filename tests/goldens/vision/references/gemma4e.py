"""Gemma4ForConditionalGeneration with embeddings of each layer."""

from __future__ import annotations

from tests.goldens.vision.files.gemma4e import PER_LAYER
from tests.goldens.vision.references.gemma4 import reference

REFERENCE = reference(PER_LAYER)
