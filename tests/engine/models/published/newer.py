"""Models of 2026 with experts, as they are published."""

from tests.engine.models.published.size import (
    CONTEXT,
    HALF,
    Size,
    attention,
    experts,
    gated,
    kv,
    mixed,
    vectors,
)

NORMS = "attn_norm ffn_norm"
HEAD_NORMS = vectors("attn_q_norm attn_k_norm", 128)
SMALL4 = {
    **vectors(NORMS, 4096),
    "attn_q_a": (4096, 1024), "attn_q_a_norm": (1024,), "attn_q_b": (1024, 32 * 128),
    "attn_kv_a_mqa": (4096, 320), "attn_kv_a_norm": (256,), "attn_k_b": (64, 256, 32),
    "attn_v_b": (256, 128, 32), "attn_output": (4096, 4096), **experts(4096, 2048, 128, 2048),
}  # fmt: skip
MELLUM = vectors(NORMS, 2304) | HEAD_NORMS | attention(2304, 32, 4, 128) | experts(2304, 896, 64)
HY3 = vectors(NORMS, 4096) | HEAD_NORMS | attention(4096, 64, 8, 128)
HY3_EXPERTS = experts(4096, 1536, 192, 1536) | {"exp_probs_b.bias": (192,)}
STEP_HEADS = [96 if i % 4 else 64 for i in range(45)]


def step(i: int) -> dict[str, tuple[int, ...]]:
    """A layer of Step 3.5 Flash: three are dense, every fourth sees all."""
    heads = STEP_HEADS[i]
    routed = experts(4096, 1280, 288, 1280) | {"exp_probs_b.bias": (288,)}
    return {
        **vectors(NORMS, 4096),
        **HEAD_NORMS,
        **attention(4096, heads, 8, 128),
        "attn_gate": (4096, heads),
        **(routed if i > 2 else gated(4096, 11264)),
    }


SIZES: dict[str, Size] = {
    "mistral-small-4": mixed(
        "mistral4", 119e9, (36, 4096, 12288, 32, 1, 320, 131072), lambda i: SMALL4,
        36 * 320 * CONTEXT * HALF,
        attention__key_length_mla=128, attention__value_length_mla=128,
        attention__kv_lora_rank=256, rope__dimension_count=64, expert_count=128,
        expert_used_count=4, expert_weights_norm=True,
    ),
    "mellum-2": mixed(
        "mellum", 12.15e9, (28, 2304, 7168, 32, 4, 128, 98304), lambda i: MELLUM,
        kv(7, 4, 128) + kv(21, 4, 128, 1024 + 512), expert_count=64, expert_used_count=8,
        attention__sliding_window=1024,
    ),
    "hy3": mixed(
        "hy_v3", 295e9, (80, 4096, 13312, 64, 8, 128, 120832),
        lambda i: HY3 | (HY3_EXPERTS if i else gated(4096, 13312)), kv(80, 8, 128),
        expert_count=192, expert_used_count=8, expert_weights_norm=True,
    ),
    "step-3.5-flash": mixed(
        "step35", 196.96e9, (45, 4096, 11264, 64, 8, 128, 128896), step,
        kv(12, 8, 128) + kv(33, 8, 128, 512 + 512), expert_count=288, expert_used_count=8,
        attention__head_count=STEP_HEADS, attention__sliding_window=512,
        attention__sliding_window_pattern=[i % 4 > 0 for i in range(45)],
    ),
}  # fmt: skip
