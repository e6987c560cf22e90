"""PaddleOCRVLForConditionalGeneration: grids larger and smaller than the square of positions."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PaddleOCRVLConfig, PaddleOCRVLForConditionalGeneration, PreTrainedModel

from tests.goldens.vision.files.paddleocr import SECTIONS, TEXT, TOWER, VOCABULARY
from tests.goldens.vision.files.tower import HALF
from tests.goldens.vision.references.common import eager, parts, words
from tests.goldens.vision.references.qwen import reference

PAD = "<|IMAGE_PLACEHOLDER|>"


def _model() -> PreTrainedModel:
    rope = {"rope_type": "default", "rope_theta": TEXT.base, "mrope_section": list(SECTIONS)}
    vision = TOWER.config() | {"spatial_merge_size": 2}
    text = TEXT.config(VOCABULARY) | {"rope_parameters": rope}
    config = PaddleOCRVLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=VOCABULARY.id(PAD),
        video_token_id=len(VOCABULARY),
        vision_start_token_id=VOCABULARY.id("<|IMAGE_START|>"),
        vision_end_token_id=VOCABULARY.id("<|IMAGE_END|>"),
        tie_word_embeddings=False,
    )
    return eager(PaddleOCRVLForConditionalGeneration, config)


def _patches(pixels: Tensor, patch: int) -> tuple[Tensor, Tensor]:
    """From [1, 3, h, w] to patches [n, 3, P, P], row by row, and the grid of them."""
    _, channels, height, width = pixels.shape
    rows, columns = height // patch, width // patch
    cut = pixels[0].reshape(channels, rows, patch, columns, patch).permute(1, 3, 0, 2, 4)
    return cut.reshape(-1, channels, patch, patch), torch.tensor([[1, rows, columns]])


REFERENCE = reference(
    _model,
    TOWER,
    {"two": parts(words(1), (98, 70), words(1), (140, 28), words(1))},
    HALF,
    HALF,
    vocabulary=VOCABULARY,
    pad=PAD,
    seed=2,
    patches=_patches,
)
