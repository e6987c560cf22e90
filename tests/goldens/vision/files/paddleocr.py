"""PaddleOCR-VL: SigLIP whose patches turn, and ERNIE 4.5 with places of three axes."""

from __future__ import annotations

from tests.goldens.vision.files.text import TEXT_NAMES, TextSizes
from tests.goldens.vision.files.tower import HALF, TowerSizes, clip_names
from tests.goldens.vision.layout import File, State, renamed
from tests.goldens.vision.words import Vocabulary

SECTIONS = (2, 3, 3)
TEXT = TextSizes()
TOWER = TowerSizes(side=56, width=32, heads=2, feed_forward=64)
"""`side` is that of the square of positions; files tell the largest picture's."""
LEAST, MOST = 28**2, 140**2

TEMPLATE = (
    "{{ '<s>' }}{% for message in messages %}{{ 'User: ' }}{% for part in message.content %}"
    "{% if part.type == 'image' %}{{ '<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>' }}"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant: ' }}{% endif %}"
)
VOCABULARY = Vocabulary(
    pre="default",
    special=("<s>", "</s>", "<|IMAGE_START|>", "<|IMAGE_PLACEHOLDER|>", "<|IMAGE_END|>"),
    bos="<s>",
    eos="</s>",
    template=TEMPLATE,
)
MMPROJ = (
    *clip_names(r"model\.visual\.vision_model"),
    (r"model\.projector\.pre_norm\.(\w+)", r"mm.input_norm.\1"),
    (r"model\.projector\.linear_([12])\.(\w+)", r"mm.\1.\2"),
)


def text(state: State) -> File:
    """The language model by itself: queries and keys turn halves, so nothing is moved."""
    keys = {"paddleocr.rope.dimension_sections": [*SECTIONS, 0]}
    metadata = TEXT.metadata("paddleocr") | keys | VOCABULARY.metadata()
    return File("paddleocr", metadata, dict(renamed(state, TEXT_NAMES)))


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower."""
    sizes = {"image_min_pixels": LEAST, "image_max_pixels": MOST, "image_size": int(MOST**0.5)}
    keys = TOWER.mmproj("paddleocr", TEXT.embedding, HALF, HALF, **sizes)
    return File("clip", {"clip.use_gelu": True} | keys, dict(renamed(state, MMPROJ)))
