"""Gemma 3: SigLIP, pictures pooled to 16 rows that see one another, six windowed layers to one."""

from __future__ import annotations

from tests.goldens.vision.files.text import LAYER, TEXT_NAMES, TextSizes
from tests.goldens.vision.files.tower import TowerSizes, clip_names
from tests.goldens.vision.layout import File, State, renamed
from tests.goldens.vision.words import Vocabulary

ARCHITECTURE = "gemma3"
ROWS, WINDOW = 16, 64
TEXT = TextSizes(layers=7, heads=2, kv_heads=1, head=32, feed_forward=64, eps=1e-6, base=1e6)
"""Layers 0 to 4 and 6 see a window, layer 5 everything."""

TOWER = TowerSizes(side=112, width=96, feed_forward=128)
"""Heads of 24: no multiple of 16, as the real 72."""

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<start_of_turn>"
    "{{ 'model' if message.role == 'assistant' else message.role }}\n"
    "{% if message.content is string %}{{ message.content | trim }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}<start_of_image>"
    "{% else %}{{ part.text | trim }}{% endif %}{% endfor %}{% endif %}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
VOCABULARY = Vocabulary(
    pre="default",
    special=(
        *("<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"),
        *("<start_of_image>", "<end_of_image>", "<image_soft_token>"),
    ),
    bos="<bos>",
    eos="<eos>",
    template=TEMPLATE,
    add_bos=True,
)

TEXT_PARTS = (
    (rf"{LAYER}\.pre_feedforward_layernorm\.weight", r"blk.\1.ffn_norm.weight"),
    (rf"{LAYER}\.post_feedforward_layernorm\.weight", r"blk.\1.post_ffw_norm.weight"),
    (rf"{LAYER}\.post_attention_layernorm\.weight", r"blk.\1.post_attention_norm.weight"),
    *TEXT_NAMES,
)
PROJECTOR = r"model\.multi_modal_projector\.mm_"
MMPROJ = (
    *clip_names(r"model\.vision_tower"),
    (rf"{PROJECTOR}soft_emb_norm\.weight", r"mm.soft_emb_norm.weight"),
    (rf"{PROJECTOR}input_projection_weight", r"mm.input_projection.weight"),
)
SINGLE = (
    (r"v\.patch_embd\.(\w+)", r"v.patch_embedding.\1"),
    (r"v\.position_embd\.weight", r"v.position_embedding.weight"),
    (r"v\.post_ln\.(\w+)", r"v.post_layernorm.\1"),
    (r"v\.blk\.(\d+)\.ln([12])\.(\w+)", r"v.blk.\1.layer_norm\2.\3"),
    (r"v\.blk\.(\d+)\.attn_out\.(\w+)", r"v.blk.\1.attn_output.\2"),
    (r"v\.blk\.(\d+)\.ffn_up\.(\w+)", r"v.blk.\1.mlp.fc1.\2"),
    (r"v\.blk\.(\d+)\.ffn_down\.(\w+)", r"v.blk.\1.mlp.fc2.\2"),
    (r"mm\.(soft_emb_norm|input_projection)\.weight", r"mm.mm_\1.weight"),
    (r"(v\..+)", r"\1"),
)


def text(state: State) -> File:
    """The language model by itself."""
    window = {"gemma3.attention.sliding_window": WINDOW}
    metadata = TEXT.metadata(ARCHITECTURE) | window | VOCABULARY.metadata()
    tensors = dict(renamed(state, TEXT_PARTS))
    # Every norm multiplies by 1 + its weight; files hold the sum.
    tensors = {n: v + 1 if "norm" in n else v for n, v in tensors.items()}
    return File(ARCHITECTURE, metadata, tensors)


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower."""
    tensors = dict(renamed(state, MMPROJ))
    tensors["mm.soft_emb_norm.weight"] += 1
    scale = TOWER.side // TOWER.patch // 4
    keys = TOWER.mmproj("gemma3", TEXT.embedding, projector__scale_factor=scale)
    return File("clip", {"clip.use_gelu": True} | keys, tensors)


def single(state: State) -> File:
    """Ollama's file of both."""
    words, tower = text(state), mmproj(state)
    rows = {"gemma3.mm.tokens_per_image": ROWS, "gemma3.vision.num_channels": 3}
    metadata = dict(words.metadata) | TOWER.metadata("gemma3") | rows
    tensors = dict(words.tensors) | dict(renamed(tower.tensors, SINGLE))
    return File(ARCHITECTURE, metadata, tensors)
