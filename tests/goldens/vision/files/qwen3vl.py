"""Qwen3-VL: stretched positions, further rows for the text's first layers, interleaved places."""

from __future__ import annotations

from tests.goldens.vision.files import qwen
from tests.goldens.vision.files.text import TextSizes
from tests.goldens.vision.files.tower import HALF, TowerSizes
from tests.goldens.vision.layout import File, State, renamed

VOCABULARY = qwen.VOCABULARY
SECTIONS = (4, 2, 2)
"""Pairs 1, 4 turn by height, 2, 5 by width, the others, also the last, by time."""

DEEPSTACK = (1, 2)
"""The blocks behind which further rows are taken."""

TEXT = TextSizes(eps=1e-6)
TOWER = TowerSizes(side=48, patch=8, blocks=4, width=32, heads=2, feed_forward=64)
TABLE = (TOWER.side // TOWER.patch) ** 2
LEAST, MOST = 1024, 65536
"""Pixels of a picture."""

DEEP = rf"{qwen.VISUAL}\.deepstack_merger_list\.(\d+)"
NAMES = (
    *qwen.BLOCK_NAMES,
    (rf"{qwen.VISUAL}\.pos_embed\.weight", r"v.position_embd.weight"),
    (rf"{qwen.VISUAL}\.merger\.norm\.(\w+)", r"v.post_ln.\1"),
    (rf"{qwen.VISUAL}\.merger\.linear_fc1\.(\w+)", r"mm.0.\1"),
    (rf"{qwen.VISUAL}\.merger\.linear_fc2\.(\w+)", r"mm.2.\1"),
    (rf"{DEEP}\.norm\.(\w+)", r"v.deepstack.\1.norm.\2"),
    (rf"{DEEP}\.linear_(fc[12])\.(\w+)", r"v.deepstack.\1.\2.\3"),
)
SINGLE = (
    (r"v\.patch_embd\.(\w+)", r"v.patch_embed.\1"),
    (r"v\.position_embd\.weight", r"v.pos_embed.weight"),
    (r"v\.blk\.(\d+)\.ln([12])\.(\w+)", r"v.blk.\1.norm\2.\3"),
    (r"v\.blk\.(\d+)\.ffn_up\.(\w+)", r"v.blk.\1.mlp.linear_fc1.\2"),
    (r"v\.blk\.(\d+)\.ffn_down\.(\w+)", r"v.blk.\1.mlp.linear_fc2.\2"),
    (r"(v\.blk\..+)", r"\1"),
    (r"v\.post_ln\.(\w+)", r"v.merger.norm.\1"),
    (r"mm\.0\.(\w+)", r"v.merger.linear_fc1.\1"),
    (r"mm\.2\.(\w+)", r"v.merger.linear_fc2.\1"),
    (r"v\.deepstack\.(\d+)\.norm\.(\w+)", r"v.deepstack_merger.\1.norm.\2"),
    (r"v\.deepstack\.(\d+)\.(fc[12])\.(\w+)", r"v.deepstack_merger.\1.linear_\2.\3"),
)


def text(state: State) -> File:
    """The language model by itself."""
    return qwen.text(state, TEXT, "qwen3vl", SECTIONS, n_deepstack_layers=len(DEEPSTACK))


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower; its deepstack tensors carry the number of their block."""
    tensors = {}
    for name, values in renamed(state, NAMES):
        if name.startswith("v.deepstack."):
            _, _, k, rest = name.split(".", 3)
            name = f"v.deepstack.{DEEPSTACK[int(k)]}.{rest}"
        tensors[name] = values
    tensors = qwen.two_frames(tensors, "v.patch_embd.weight", "v.patch_embd.weight.1")
    keys = TOWER.mmproj(
        *("qwen3vl_merger", TEXT.embedding, HALF, HALF),
        spatial_merge_size=qwen.MERGE,
        image_min_pixels=LEAST,
        image_max_pixels=MOST,
        is_deepstack_layers=[i in DEEPSTACK for i in range(TOWER.blocks)],
    )
    return File("clip", {"clip.use_gelu": True} | keys, tensors)


def single(state: State) -> File:
    """Ollama's file of both: kernels [P, P, 2, 3 * D], further rows counted from 0."""
    words = qwen.text(state, TEXT, "qwen3vl", SECTIONS)
    metadata = dict(words.metadata) | {
        "qwen3vl.rope.mrope_section": list(SECTIONS),
        "qwen3vl.vision.block_count": TOWER.blocks,
        "qwen3vl.vision.embedding_length": TOWER.width,
        "qwen3vl.vision.attention.head_count": TOWER.heads,
        "qwen3vl.vision.attention.layer_norm_epsilon": TOWER.eps,
        "qwen3vl.vision.num_channels": 3,
        "qwen3vl.vision.patch_size": TOWER.patch,
        "qwen3vl.vision.spatial_merge_size": qwen.MERGE,
        "qwen3vl.vision.temporal_patch_size": 2,
        "qwen3vl.vision.rope.freq_base": 1e4,
        "qwen3vl.vision.deepstack_visual_indexes": list(DEEPSTACK),
        "qwen3vl.vision.shortest_edge": LEAST,
        "qwen3vl.vision.longest_edge": MOST,
        "qwen3vl.vision.image_mean": list(HALF),
        "qwen3vl.vision.image_std": list(HALF),
    }
    del metadata["qwen3vl.rope.dimension_sections"]
    tower = qwen.three_parts(dict(renamed(dict(renamed(state, NAMES)), SINGLE)))
    kernels = tower["v.patch_embed.weight"]
    tower["v.patch_embed.weight"] = kernels.reshape(-1, *kernels.shape[2:])
    return File("qwen3vl", metadata, dict(words.tensors) | tower)
