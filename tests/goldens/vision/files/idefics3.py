"""Idefics3 and SmolVLM: SigLIP over tiles and an overview, four patches to a row."""

from __future__ import annotations

from tests.goldens.vision.files.text import TextSizes, llama
from tests.goldens.vision.files.tower import TowerSizes, clip_names
from tests.goldens.vision.layout import File, State, renamed
from tests.goldens.vision.words import Vocabulary

SCALE = 2
TEXT = TextSizes()
TOWER = TowerSizes(side=28)
LONGEST = 4 * TOWER.side
ROWS = (TOWER.side // TOWER.patch // SCALE) ** 2

TEMPLATE = (
    "<|im_start|>{% for message in messages %}{{ message.role | capitalize }}"
    "{% if message.content[0].type == 'image' %}{{ ':' }}{% else %}{{ ': ' }}{% endif %}"
    "{% for line in message.content %}{% if line.type == 'text' %}{{ line.text }}"
    "{% elif line.type == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n"
    "{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)
VOCABULARY = Vocabulary(
    pre="smollm",
    special=(
        *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<end_of_utterance>"),
        *("<fake_token_around_image>", "<global-img>", "<image>"),
        *(f"<row_{r}_col_{c}>" for r in range(1, 5) for c in range(1, 5)),
    ),
    bos="<|im_start|>",
    eos="<end_of_utterance>",
    template=TEMPLATE,
)


def text(state: State) -> File:
    """The language model by itself."""
    return llama(state, TEXT, VOCABULARY)


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower."""
    names = (
        *clip_names(r"model\.vision_model"),
        (r"model\.connector\.modality_projection\.proj\.weight", r"mm.model.fc.weight"),
    )
    keys = TOWER.mmproj(
        "idefics3", TEXT.embedding, projector__scale_factor=SCALE, preproc_image_size=LONGEST
    )
    return File("clip", {"clip.use_gelu": True} | keys, dict(renamed(state, names)))
