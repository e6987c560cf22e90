"""LightOnOCR: Mistral Small's tower before Qwen3, its rows without marks."""

from __future__ import annotations

from tests.goldens.vision.files.mistral3 import MERGE, MMPROJ
from tests.goldens.vision.files.text import TEXT_NAMES, TextSizes
from tests.goldens.vision.files.tower import CLIP_MEAN, CLIP_STD, TowerSizes
from tests.goldens.vision.layout import File, State, adjacent, renamed
from tests.goldens.vision.words import Vocabulary

TEXT = TextSizes(eps=1e-3)
"""The projector's norm takes this epsilon, and not the tower's."""
TOWER = TowerSizes(side=112, width=32, heads=2, feed_forward=64, eps=1e-5)
"""`side` is the longest edge."""

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% for part in message.content %}{% if part.type == 'image' %}<|image_pad|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCABULARY = Vocabulary(
    pre="qwen2",
    special=("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|image_pad|>"),
    bos="<|endoftext|>",
    eos="<|im_end|>",
    template=TEMPLATE,
)
OUTER = (
    (r"model\.vision_encoder\.(.+)", r"model.vision_tower.\1"),
    (r"model\.vision_projection\.(.+)", r"model.multi_modal_projector.\1"),
)


def text(state: State) -> File:
    """The language model by itself: queries and keys turn halves, so nothing is moved."""
    metadata = TEXT.metadata("qwen3") | VOCABULARY.metadata()
    return File("qwen3", metadata, dict(renamed(state, TEXT_NAMES)))


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower: queries and keys turn neighbours."""
    tensors = dict(renamed(dict(renamed(state, OUTER)), MMPROJ))
    for name in tensors:
        if name.endswith(("attn_q.weight", "attn_k.weight")):
            tensors[name] = adjacent(tensors[name], TOWER.heads)
    keys = TOWER.mmproj("lightonocr", TEXT.embedding, CLIP_MEAN, CLIP_STD, spatial_merge_size=MERGE)
    return File("clip", {"clip.use_silu": True} | keys, tensors)
