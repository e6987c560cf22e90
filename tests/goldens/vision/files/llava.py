"""LLaVA 1.5: CLIP without its last block, and a picture's rows without marks around them."""

from __future__ import annotations

from tests.goldens.vision.files.text import TextSizes, llama
from tests.goldens.vision.files.tower import CLIP_MEAN, CLIP_STD, TowerSizes, clip_names
from tests.goldens.vision.layout import File, State, renamed
from tests.goldens.vision.words import Vocabulary

TEXT = TextSizes()
TOWER = TowerSizes(side=28, blocks=3, eps=1e-5)
"""As it is in transformers; the last block is never run, and files do not hold it."""

TEMPLATE = (
    "{% for message in messages %}{{ message.role.upper() + ': ' }}"
    "{% for part in message.content %}{% if part.type == 'image' %}{{ '<image>\n' }}"
    "{% else %}{{ part.text + ' ' }}{% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
VOCABULARY = Vocabulary(
    pre="default",
    special=("<s>", "</s>"),
    bos="<s>",
    eos="</s>",
    template=TEMPLATE,
    add_bos=True,
)
"""Without a token for pictures, as the original files are."""

PROJECTOR = (
    (r"model\.multi_modal_projector\.linear_1\.(\w+)", r"mm.0.\1"),
    (r"model\.multi_modal_projector\.linear_2\.(\w+)", r"mm.2.\1"),
)


def text(state: State) -> File:
    """The language model by itself."""
    return llama(state, TEXT, VOCABULARY)


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower, with CLIP's own projection_dim, which means nothing here."""
    tensors = dict(renamed(state, (*clip_names(r"model\.vision_tower"), *PROJECTOR)))
    last = f"v.blk.{TOWER.blocks - 1}."
    kept = {n: v for n, v in tensors.items() if not n.startswith((last, "v.post_ln"))}
    stored = TOWER._replace(blocks=TOWER.blocks - 1)
    keys = stored.mmproj("mlp", 768, CLIP_MEAN, CLIP_STD)
    return File("clip", {"clip.has_llava_projector": True, "clip.use_gelu": False} | keys, kept)
