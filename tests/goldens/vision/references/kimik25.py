"""Kimi_K25ForConditionalGeneration, as in Kimi-VL's reference, with its own names for tokens."""

from __future__ import annotations

from dataclasses import replace

from tests.goldens.vision.files.kimik25 import VOCABULARY
from tests.goldens.vision.references import kimivl

REFERENCE = replace(kimivl.REFERENCE, vocabulary=VOCABULARY)
