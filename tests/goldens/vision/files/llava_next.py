"""LLaVA 1.6: an overview and tiles, whose rows are joined, unpadded and broken into lines."""

from __future__ import annotations

from tests.goldens.vision.files.llava import PROJECTOR
from tests.goldens.vision.files.text import TextSizes, llama
from tests.goldens.vision.files.tower import CLIP_MEAN, CLIP_STD, TowerSizes, clip_names
from tests.goldens.vision.layout import File, State, renamed
from tests.goldens.vision.words import Vocabulary

TEXT = TextSizes()
TOWER = TowerSizes(side=28, blocks=3, width=32, heads=2, feed_forward=64, eps=1e-5)
PINPOINTS = ((28, 56), (56, 28), (56, 56))
"""Height and width of canvases, as transformers has them."""

TEMPLATE = (
    "{% for message in messages %}{% if message.role == 'user' %}[INST] "
    "{% for part in message.content %}{% if part.type == 'image' %}{{ '<image>\n' }}"
    "{% else %}{{ part.text }}{% endif %}{% endfor %} [/INST]"
    "{% else %}{{ ' ' + message.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
VOCABULARY = Vocabulary(
    pre="default",
    special=("<s>", "</s>", "<image>"),
    bos="<s>",
    eos="</s>",
    template=TEMPLATE,
    add_bos=True,
)


def text(state: State) -> File:
    """The language model by itself."""
    return llama(state, TEXT, VOCABULARY)


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower: all blocks, and which one's output is taken."""
    newline = ((r"model\.image_newline", r"model.image_newline"),)
    names = (*clip_names(r"model\.vision_tower"), *PROJECTOR, *newline)
    keys = TOWER.mmproj(
        *("mlp", TEXT.embedding, CLIP_MEAN, CLIP_STD),
        feature_layer=[TOWER.blocks - 1],
        image_grid_pinpoints=[side for h, w in PINPOINTS for side in (w, h)],
        mm_patch_merge_type="spatial_unpad",
    )
    header = {"clip.has_llava_projector": True, "clip.use_gelu": False}
    return File("clip", header | keys, dict(renamed(state, names)))
