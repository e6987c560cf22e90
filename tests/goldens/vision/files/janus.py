"""Janus-Pro: SigLIP with GELU itself, its rows between marks, before Llama."""

from __future__ import annotations

from tests.goldens.vision.files.text import TextSizes, llama
from tests.goldens.vision.files.tower import HALF, TowerSizes, clip_names
from tests.goldens.vision.layout import File, State, renamed
from tests.goldens.vision.words import Vocabulary

TEXT = TextSizes(eps=1e-6)
TOWER = TowerSizes(side=28, width=32, heads=2, feed_forward=64)

BEGIN, PAD, END = "<begin_of_image>", "<image_placeholder>", "<end_of_image>"
TEMPLATE = (
    "{% for message in messages %}{{ '<|User|>: ' }}"
    "{% for part in message.content %}{% if part.type == 'image' %}{{ '<image_placeholder>\n' }}"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{{ '\n\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|Assistant|>:' }}{% endif %}"
)
VOCABULARY = Vocabulary(
    pre="qwen2",
    special=("<s>", "</s>", "<|User|>", "<|Assistant|>", BEGIN, PAD, END),
    bos="<s>",
    eos="</s>",
    template=TEMPLATE,
    add_bos=True,
)
MMPROJ = (
    (
        r"model\.vision_model\.encoder\.layers\.(\d+)\.self_attn\.projection_layer\.(\w+)",
        r"v.blk.\1.attn_out.\2",
    ),
    *clip_names(r"model\.vision_model"),
    (r"model\.aligner\.fc1\.(\w+)", r"mm.0.\1"),
    (r"model\.aligner\.hidden_layers\.0\.(\w+)", r"mm.1.\1"),
)


def text(state: State) -> File:
    """The language model by itself."""
    return llama(state, TEXT, VOCABULARY)


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower."""
    keys = TOWER.mmproj("janus_pro", TEXT.embedding, HALF, HALF)
    return File("clip", {"clip.use_gelu": True} | keys, dict(renamed(state, MMPROJ)))
