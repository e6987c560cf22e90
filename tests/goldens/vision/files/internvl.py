"""InternVL: InternViT over tiles with an overview, four patches to a row.

Layers are scaled as in its tower of 300M, queries and keys normalised as in the one of 6B.
"""

from __future__ import annotations

from tests.goldens.vision.files.text import TEXT_NAMES, TextSizes
from tests.goldens.vision.files.tower import TowerSizes
from tests.goldens.vision.layout import File, State, renamed
from tests.goldens.vision.words import Vocabulary

SCALE, MOST_TILES = 2, 12
TEXT = TextSizes(eps=1e-6)
TOWER = TowerSizes(side=28)
ROWS = (TOWER.side // TOWER.patch // SCALE) ** 2
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}{{ '<IMG_CONTEXT>\n' }}"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCABULARY = Vocabulary(
    pre="qwen2",
    special=(
        *("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
        *("<img>", "</img>", "<IMG_CONTEXT>"),
    ),
    bos="<|endoftext|>",
    eos="<|im_end|>",
    template=TEMPLATE,
)

EMBEDDINGS = r"model\.vision_tower\.embeddings"
BLOCK = r"model\.vision_tower\.encoder\.layer\.(\d+)"
PROJECTOR = r"model\.multi_modal_projector"
MMPROJ = (
    (rf"{EMBEDDINGS}\.cls_token", r"v.class_embd"),
    (rf"{EMBEDDINGS}\.position_embeddings", r"v.position_embd.weight"),
    (rf"{EMBEDDINGS}\.patch_embeddings\.projection\.(\w+)", r"v.patch_embd.\1"),
    (rf"{BLOCK}\.lambda_([12])", r"v.blk.\1.ls\2.weight"),
    (rf"{BLOCK}\.attention\.([qkv])_proj\.(\w+)", r"v.blk.\1.attn_\2.\3"),
    (rf"{BLOCK}\.attention\.([qk])_norm\.weight", r"v.blk.\1.attn_\2_norm.weight"),
    (rf"{BLOCK}\.attention\.projection_layer\.(\w+)", r"v.blk.\1.attn_out.\2"),
    (rf"{BLOCK}\.layernorm_before\.(\w+)", r"v.blk.\1.ln1.\2"),
    (rf"{BLOCK}\.layernorm_after\.(\w+)", r"v.blk.\1.ln2.\2"),
    (rf"{BLOCK}\.mlp\.fc1\.(\w+)", r"v.blk.\1.ffn_up.\2"),
    (rf"{BLOCK}\.mlp\.fc2\.(\w+)", r"v.blk.\1.ffn_down.\2"),
    (rf"{PROJECTOR}\.layer_norm\.(\w+)", r"mm.model.mlp.0.\1"),
    (rf"{PROJECTOR}\.linear_1\.(\w+)", r"mm.model.mlp.1.\1"),
    (rf"{PROJECTOR}\.linear_2\.(\w+)", r"mm.model.mlp.3.\1"),
)


def text(state: State) -> File:
    """The language model by itself."""
    metadata = TEXT.metadata("qwen2") | VOCABULARY.metadata()
    return File("qwen2", metadata, dict(renamed(state, TEXT_NAMES)))


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower; its class row and positions keep their outer axes of one."""
    keys = TOWER.mmproj("internvl", TEXT.embedding, MEAN, STD, projector__scale_factor=SCALE)
    return File("clip", {"clip.use_gelu": True} | keys, dict(renamed(state, MMPROJ)))
