"""GlmOcrForConditionalGeneration: heads are normalised, patches have no positions but turns."""

from __future__ import annotations

from transformers import GlmOcrConfig, GlmOcrForConditionalGeneration

from tests.goldens.vision.files.glmocr import TOWER
from tests.goldens.vision.references.glm4v import made, seen

REFERENCE = seen(lambda: made(GlmOcrForConditionalGeneration, GlmOcrConfig, TOWER), TOWER)
