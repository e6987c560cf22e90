"""Models whose layers differ in what they see. Where a publisher gives no number of parameters for
the text alone, it is that of the default config of transformers 5.23, which is the model's own.
"""

from collections.abc import Mapping

from tests.engine.models.published.size import (
    NORMS,
    Size,
    attention,
    experts,
    gated,
    keys,
    kv,
    mixed,
    vectors,
    whole,
)

STEP = 512
"""Tokens that a windowed cache has beside its window."""
CROSS = [3, 8, 13, 18, 23, 28, 33, 38]
PICTURE = 4 * (1 + (560 // 14) ** 2)
"""Rows of a picture of four tiles; two pictures are kept, in cells by 256."""
PICTURES = -(-2 * PICTURE // 256) * 256


def gemma4(i: int) -> Mapping[str, tuple[int, ...]]:
    """A layer of 31B: five see a window, the sixth sees all with larger heads and no values."""
    e, f, h = 5376, 21504, 32
    heads = attention(e, h, 16, 256) if i % 6 < 5 else attention(e, h, 4, 512)
    if i % 6 == 5:
        del heads["attn_v"]
    norms = "attn_norm post_attention_norm ffn_norm post_ffw_norm"
    size = heads["attn_q"][1] // h
    return {
        **heads, **gated(e, f), **vectors(norms, e), **vectors("attn_q_norm attn_k_norm", size),
        "layer_output_scale": (1,),
    }  # fmt: skip


def laguna(i: int) -> Mapping[str, tuple[int, ...]]:
    """A layer of XS.2: the first is dense."""
    e = 2048
    fed = {**experts(e, 512, 256, 512), "exp_probs_b.bias": (256,)} if i else gated(e, 8192)
    heads = {**attention(e, 48, 8, 128), **vectors("attn_q_norm attn_k_norm", 128)}
    return {**heads, **vectors(NORMS, e), **fed, "attn_gate": (e, 48)}


def mllama(i: int) -> Mapping[str, tuple[int, ...]]:
    """A layer of Llama 3.2 11B Vision: eight look at pictures."""
    e, h, k, d = 4096, 32, 8, 128
    made = {**gated(e, 14336), **vectors(NORMS, e)}
    if i not in CROSS:
        return {**made, **attention(e, h, k, d)}
    return {
        **made,
        "cross_attn_q_proj": (e, h * d), "cross_attn_k_proj": (e, k * d),
        "cross_attn_v_proj": (e, k * d), "cross_attn_o_proj": (h * d, e),
        **vectors("cross_attn_q_norm cross_attn_k_norm", d),
        **vectors("cross_attn_attn_gate cross_attn_mlp_gate", 1),
    }  # fmt: skip


def muse_glimmer(i: int) -> Mapping[str, tuple[int, ...]]:
    e, h, k, d = 6656, 32, 2, 128
    norms = "attn_norm post_attention_norm ffn_norm post_ffw_norm"
    heads = {**attention(e, h, k, d), **vectors("attn_q_norm attn_k_norm", d)}
    return {**heads, **vectors(norms, e), **gated(e, 19968), "attn_gate": (e, h * d)}


SIZES = {
    "gemma4-31b": mixed(
        "gemma4", 30_700_000_000, (60, 5376, 21504, 32, ([16] * 5 + [4]) * 10, 512, 262144), gemma4,
        kv(50, 16, 256, 1024 + STEP) + kv(10, 4, 512), tied=True,
        attention__key_length_swa=256, attention__value_length_swa=256,
        attention__sliding_window=1024, final_logit_softcapping=30.0,
        attention__sliding_window_pattern=[i % 6 < 5 for i in range(60)],
    ),
    "laguna-xs.2": mixed(
        "laguna", 33_189_975_808, (40, 2048, 8192, 48, 8, 128, 100352), laguna,
        kv(10, 8, 128) + kv(30, 8, 128, 512 + STEP),
        expert_count=256, expert_used_count=8, expert_feed_forward_length=512,
        expert_shared_feed_forward_length=512, leading_dense_block_count=1,
        attention__sliding_window=512, rope__dimension_count=64,
    ),
    "llama-3.2-11b-vision": Size(
        "mllama", 9_775_192_080,
        kv(32, 8, 128) + kv(len(CROSS), 8, 128, PICTURES), 128264,
        keys(40, 4096, 14336, 32, 8, 128, attention__cross_attention_layers=CROSS),
        whole(40, 4096, 128256, mllama, tied=False) | {"token_embd.weight": (4096, 128264)},
    ),
    "muse-glimmer-30b": mixed(
        "muse-glimmer", 27_854_780_928, (52, 6656, 19968, 32, 2, 128, 202048), muse_glimmer,
        kv(13, 2, 128) + kv(39, 2, 128, 2048 + STEP),
        attention__sliding_window=2048,
        attention__sliding_window_pattern=[i % 4 < 3 for i in range(52)],
    ),
}  # fmt: skip
