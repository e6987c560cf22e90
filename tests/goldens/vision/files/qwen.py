"""What Qwen's families that see have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.goldens.vision.files.text import TEXT_NAMES, TextSizes
from tests.goldens.vision.layout import File, State, renamed
from tests.goldens.vision.words import Vocabulary

MERGE = 2
VISUAL = r"model\.visual"
BLOCK = rf"{VISUAL}\.blocks\.(\d+)"
BLOCK_NAMES = (
    (rf"{BLOCK}\.norm([12])\.(\w+)", r"v.blk.\1.ln\2.\3"),
    (rf"{BLOCK}\.attn\.qkv\.(\w+)", r"v.blk.\1.attn_qkv.\2"),
    (rf"{BLOCK}\.attn\.proj\.(\w+)", r"v.blk.\1.attn_out.\2"),
    (rf"{BLOCK}\.mlp\.(?:linear_)?fc1\.(\w+)", r"v.blk.\1.ffn_up.\2"),
    (rf"{BLOCK}\.mlp\.(?:linear_)?fc2\.(\w+)", r"v.blk.\1.ffn_down.\2"),
    (rf"{BLOCK}\.mlp\.(gate|up|down)_proj\.(\w+)", r"v.blk.\1.ffn_\2.\3"),
    (rf"{VISUAL}\.patch_embed\.proj\.(\w+)", r"v.patch_embd.\1"),
)

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}{% endfor %}"
    "{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCABULARY = Vocabulary(
    pre="qwen2",
    special=(
        *("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
        *("<|vision_start|>", "<|vision_end|>", "<|image_pad|>"),
    ),
    bos="<|endoftext|>",
    eos="<|im_end|>",
    template=TEMPLATE,
)


def text(
    state: State, sizes: TextSizes, architecture: str, sections: tuple[int, ...], **more: Any
) -> File:
    """The language model by itself: queries and keys turn halves, so nothing is moved."""
    keys = {f"{architecture}.rope.dimension_sections": [*sections, 0]}
    keys |= {f"{architecture}.{key}": value for key, value in more.items()}
    metadata = sizes.metadata(architecture) | keys | VOCABULARY.metadata()
    return File(architecture, metadata, dict(renamed(state, TEXT_NAMES)))


def two_frames(tensors: dict[str, np.ndarray], first: str, second: str) -> dict[str, np.ndarray]:
    """The kernels of a patch's two frames, [D, 3, 2, P, P], under two names."""
    kernels = tensors.pop("v.patch_embd.weight")
    return tensors | {first: kernels[:, :, 0], second: kernels[:, :, 1]}


def three_parts(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Queries, keys and values, which transformers stores as one, under a name each."""
    made = {}
    for name, values in tensors.items():
        if "attn_qkv" in name:
            for letter, part in zip("qkv", np.split(values, 3), strict=True):
                made[name.replace("attn_qkv", f"attn_{letter}")] = part
        else:
            made[name] = values
    return made
