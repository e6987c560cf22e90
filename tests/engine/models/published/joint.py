"""Models of joint projections, of norms without weights, and of multipliers."""

from tests.engine.models.published.others import EPS, plain, with_first
from tests.engine.models.published.size import (
    CONTEXT,
    HALF,
    NORMS,
    attention,
    dense,
    gated,
    kv,
    mixed,
    vectors,
)

FALCON = {
    "attn_norm": (4544,), "attn_norm.bias": (4544,), "attn_qkv": (4544, 73 * 64),
    "attn_output": (4544, 4544), "ffn_up": (4544, 18176), "ffn_down": (18176, 4544),
}  # fmt: skip
GLM4 = {
    **vectors(NORMS, 4096), "attn_qkv": (4096, 4608), "attn_qkv.bias": (4608,),
    "attn_output": (4096, 4096), "ffn_up": (4096, 27392), "ffn_down": (13696, 4096),
}  # fmt: skip
STARCODER = {
    **vectors(NORMS, 2048), "attn_norm.bias": (2048,), "ffn_norm.bias": (2048,),
    "attn_qkv": (2048, 2304), "attn_qkv.bias": (2304,), "attn_output": (2048, 2048),
    "attn_output.bias": (2048,), **plain(2048, 8192),
}  # fmt: skip
EXPANDED = {
    **vectors(NORMS, 2560), "attn_q_a": (2560, 768), "attn_q_a_norm": (768,),
    "attn_q_b": (768, 40 * 96), "attn_kv_a_mqa": (2560, 288), "attn_kv_a_norm": (256,),
    "attn_kv_b": (256, 40 * 128), "attn_output": (2560, 2560), **gated(2560, 6400),
}  # fmt: skip

SIZES = {
    "internlm2.5-7b": dense(
        "internlm2", 7_737_708_544, (32, 4096, 14336, 32, 8, 128, 92544)
    ),
    "minicpm-2b": dense(
        "minicpm", 2_724_880_896, (40, 2304, 5760, 36, 36, 64, 122753), tied=True,
        embedding_scale=12.0, residual_scale=0.22, logit_scale=9.0,
    ),
    "exaone-3.5-2.4b": dense(
        "exaone", 2_405_327_360, (30, 2560, 7168, 32, 8, 80, 102400), tied=True
    ),
    "minicpm3-4b": mixed(
        "minicpm3", 4.07e9, (62, 2560, 6400, 40, 40, 96, 73448), lambda i: EXPANDED,
        62 * 40 * (96 + 64) * CONTEXT * HALF, tied=True, attention__value_length=64,
        attention__q_lora_rank=768, attention__kv_lora_rank=256, rope__dimension_count=32,
    ),
    "falcon-7b": with_first(
        mixed(
            "falcon", 7_217_189_760, (32, 4544, 18176, 71, 1, 64, 65024), lambda i: FALCON,
            kv(32, 1, 64, 2048), context_length=2048, **EPS,
        ),
        {"output_norm.bias": (4544,)},
    ),
    "glm-4-9b-chat": mixed(
        "chatglm", 9_399_951_360, (40, 4096, 13696, 32, 2, 128, 151552), lambda i: GLM4,
        kv(40, 2, 128), rope__dimension_count=64,
    ),
    "olmo-7b": mixed(
        "olmo", 6_888_095_744, (32, 4096, 11008, 32, 32, 128, 50304),
        lambda i: {**attention(4096, 32, 32, 128), **gated(4096, 11008)},
        kv(32, 32, 128, 2048), norm="", context_length=2048, **EPS,
    ),
    "apertus-8b": mixed(
        "apertus", 8.05e9, (32, 4096, 21504, 32, 8, 128, 131072),
        lambda i: {**vectors(NORMS, 4096), **vectors("attn_q_norm attn_k_norm", 128),
                   **attention(4096, 32, 8, 128), "ffn_up": (4096, 21504),
                   "ffn_down": (21504, 4096)},
        kv(32, 8, 128), xielu__alpha_p=0.5, xielu__alpha_n=-0.2, xielu__beta=0.5,
    ),
    "starcoderbase-1b": with_first(
        mixed(
            "starcoder", 1_137_207_296, (24, 2048, 8192, 16, 1, 128, 49152), lambda i: STARCODER,
            kv(24, 1, 128), tied=True, context_length=8192, **EPS,
        ),
        {"position_embd.weight": (2048, 8192), "output_norm.bias": (2048,)},
    ),
}  # fmt: skip
