"""MiniCPM-V 2.6: slices, and queries that look at the patches of each view."""

from __future__ import annotations

import numpy as np

from tests.goldens.vision.files.text import TEXT_NAMES, TextSizes
from tests.goldens.vision.files.tower import TowerSizes, clip_names
from tests.goldens.vision.layout import File, State, renamed
from tests.goldens.vision.words import Vocabulary

TEXT = TextSizes(embedding=256, heads=4, kv_heads=1, feed_forward=64, eps=1e-6)
TOWER = TowerSizes(side=56, blocks=2, width=32, heads=2, feed_forward=48)
SQUARE, QUERIES, VERSION = 10, 6, 3
"""Positions along a side, rows of a view, and what 2.6 calls itself."""

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}(<image>./</image>)\n"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCABULARY = Vocabulary(
    pre="qwen2",
    special=(
        *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<image>", "</image>"),
        *("<slice>", "</slice>", "<image_id>", "</image_id>"),
    ),
    bos="<|endoftext|>",
    eos="<|im_end|>",
    template=TEMPLATE,
)
MMPROJ = (
    *clip_names("vpm"),
    (r"resampler\.query", r"resampler.query"),
    (r"resampler\.kv_proj\.weight", r"resampler.kv.weight"),
    (r"resampler\.attn\.in_proj_(weight|bias)", r"resampler.attn.in.\1"),
    (r"resampler\.attn\.out_proj\.(\w+)", r"resampler.attn.out.\1"),
    (r"resampler\.ln_(q|kv|post)\.(\w+)", r"resampler.ln_\1.\2"),
    (r"resampler\.proj", r"resampler.proj.weight"),
)


def text(state: State) -> File:
    """The language model by itself."""
    metadata = TEXT.metadata("qwen2") | VOCABULARY.metadata()
    return File("qwen2", metadata, dict(renamed(state, TEXT_NAMES)))


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower; it holds a table of sines that nobody reads."""
    tensors: dict[str, np.ndarray] = {}
    for name, values in renamed(state, MMPROJ):
        if ".attn.in." in name:
            for letter, part in zip("qkv", np.split(values, 3), strict=True):
                tensors[name.replace(".in.", f".{letter}.")] = part
        else:
            tensors[name] = values.T.copy() if name == "resampler.proj.weight" else values
    tensors["resampler.pos_embed_k"] = np.zeros((SQUARE**2, TEXT.embedding), np.float32)
    keys = TOWER.mmproj("resampler", 0) | {
        "clip.use_gelu": True,
        "clip.has_minicpmv_projector": True,
        "clip.minicpmv_version": VERSION,
        "clip.minicpmv_query_num": QUERIES,
    }
    return File("clip", keys, tensors)
