"""Models with experts in most layers, behind dense ones or between mixers of several kinds."""

from tests.engine.models.published.size import (
    attention,
    experts,
    gated,
    kv,
    mixed,
    state,
    vectors,
)

NORMS = "attn_norm ffn_norm"
HEAD_NORMS = vectors("attn_q_norm attn_k_norm", 128)
PHI = {
    **vectors("attn_norm ffn_norm attn_norm.bias ffn_norm.bias", 4096),
    **attention(4096, 32, 8, 128),
    **vectors("attn_q.bias attn_output.bias", 4096),
    **vectors("attn_k.bias attn_v.bias", 1024),
    **experts(4096, 6400, 16),
}
HUNYUAN = {
    **vectors(NORMS, 4096),
    **HEAD_NORMS,
    **attention(4096, 32, 8, 128),
    **experts(4096, 3072, 64, 3072),
}
DOTS = {**vectors(NORMS, 4096), **HEAD_NORMS, **attention(4096, 32, 32, 128)}
DOTS_EXPERTS = experts(4096, 1408, 128, 2816) | {"exp_probs_b.bias": (128,)}
TRINITY = {
    **vectors("attn_norm post_attention_norm ffn_norm post_ffw_norm", 2048),
    **HEAD_NORMS,
    **attention(2048, 32, 4, 128),
    "attn_gate": (2048, 4096),
}
TRINITY_EXPERTS = experts(2048, 1024, 128, 1024) | {"exp_probs_b.bias": (128,)}
EXAONE = {**vectors(NORMS, 6144), **HEAD_NORMS, **attention(6144, 64, 8, 128)}
EXAONE_EXPERTS = experts(6144, 2048, 128, 2048) | {"exp_probs_b.bias": (128,)}
DBRX = {
    **vectors("attn_norm attn_output_norm", 6144),
    "attn_qkv": (6144, 6144 + 2 * 1024),
    "attn_output": (6144, 6144),
    **experts(6144, 10752, 16),
}
DEEPSEEK = vectors(NORMS, 2048) | attention(2048, 16, 16, 128)
LING = vectors(NORMS, 2048) | attention(2048, 16, 4, 128) | experts(2048, 1408, 64, 2816)
LING2 = {
    **vectors(NORMS, 2048),
    **HEAD_NORMS,
    "attn_qkv": (2048, 24 * 128),
    "attn_output": (2048, 2048),
}
LING2_EXPERTS = experts(2048, 512, 256, 512) | {"exp_probs_b.bias": (256,)}
THINKER = vectors(NORMS, 2560) | attention(2560, 28, 4, 128) | experts(2560, 768, 64)
JAMBA_MAMBA = {
    "ssm_in": (4096, 16384), "ssm_conv1d": (4, 8192), "ssm_conv1d.bias": (8192,),
    "ssm_x": (8192, 256 + 2 * 16), "ssm_dt": (256, 8192), "ssm_dt.bias": (8192,),
    "ssm_a": (16, 8192), "ssm_d": (8192,), "ssm_dt_norm": (256,), "ssm_b_norm": (16,),
    "ssm_c_norm": (16,), "ssm_out": (8192, 4096),
}  # fmt: skip
MIMO_FULL = {0, *range(5, 48, 6)}


def mimo(i: int) -> dict[str, tuple[int, ...]]:
    """MiMo-V2-Flash's layer i."""
    heads = 4 if i in MIMO_FULL else 8
    made = {
        **vectors(NORMS, 4096),
        "attn_q": (4096, 64 * 192), "attn_k": (4096, heads * 192), "attn_v": (4096, heads * 128),
        "attn_output": (64 * 128, 4096),
    }  # fmt: skip
    made |= {} if i in MIMO_FULL else {"attn_sinks": (64,)}
    made |= experts(4096, 2048, 256) | {"exp_probs_b.bias": (256,)} if i else gated(4096, 16384)
    return made


def jamba(i: int) -> dict[str, tuple[int, ...]]:
    """Jamba Mini's layer i."""
    mixer = attention(4096, 32, 8, 128) if i % 8 == 4 else JAMBA_MAMBA
    feeds = experts(4096, 14336, 16) if i % 2 else gated(4096, 14336)
    return {**vectors(NORMS, 4096), **mixer, **feeds}


SIZES = {
    "phi-3.5-moe": mixed(
        "phimoe", 41_873_153_344, (32, 4096, 6400, 32, 8, 128, 32064), lambda i: PHI,
        kv(32, 8, 128), expert_count=16, expert_used_count=2, attention__sliding_window=131072,
    ),
    "hunyuan-a13b": mixed(
        "hunyuan-moe", 80.39e9, (32, 4096, 3072, 32, 8, 128, 128167), lambda i: HUNYUAN,
        kv(32, 8, 128), tied=True, expert_count=64, expert_used_count=8,
    ),
    "dots.llm1": mixed(
        "dots1", 142.77e9, (62, 4096, 10944, 32, 32, 128, 152064),
        lambda i: DOTS | (DOTS_EXPERTS if i else gated(4096, 10944)), kv(62, 32, 128),
        expert_count=128, expert_used_count=6, leading_dense_block_count=1,
    ),
    "trinity-mini": mixed(
        "afmoe", 26.12e9, (32, 2048, 6144, 32, 4, 128, 200192),
        lambda i: TRINITY | (TRINITY_EXPERTS if i > 1 else gated(2048, 6144)),
        kv(8, 4, 128) + kv(24, 4, 128, 2048 + 512), expert_count=128, expert_used_count=8,
        attention__sliding_window=2048, leading_dense_block_count=2,
    ),
    "k-exaone-236b-a23b": mixed(
        "exaone-moe", 236.5e9, (48, 6144, 18432, 64, 8, 128, 153600),
        lambda i: EXAONE | (EXAONE_EXPERTS if i else gated(6144, 18432)),
        kv(12, 8, 128) + kv(36, 8, 128, 768), expert_count=128, expert_used_count=8,
        attention__sliding_window=128, expert_gating_func=2,
    ),
    "jamba-mini": mixed(
        "jamba", 51.57e9,
        (32, 4096, 14336, 32, [8 * (i % 8 == 4) for i in range(32)], 128, 65536), jamba,
        kv(4, 8, 128) + state(28, 4, 8192, 8192 * 16), expert_count=16, expert_used_count=2,
        ssm__conv_kernel=4, ssm__inner_size=8192, ssm__state_size=16, ssm__time_step_rank=256,
    ),
    "dbrx": mixed(
        "dbrx", 131_596_523_520, (40, 6144, 10752, 48, 8, 128, 100352), lambda i: DBRX,
        kv(40, 8, 128), expert_count=16, expert_used_count=4,
        attention__layer_norm_epsilon=1e-5, attention__clamp_kqv=8.0,
    ),
    "mimo-v2-flash": mixed(
        "mimo2", 308.8e9,
        (48, 4096, 16384, 64, [4 if i in MIMO_FULL else 8 for i in range(48)], 192, 152576), mimo,
        # 129 tokens beside a step of 512; keys of 192 and values of 128 channels.
        kv(9, 4, 160) + kv(39, 8, 160, 768), expert_count=256, expert_used_count=8,
        attention__value_length=128, attention__sliding_window=128, rope__dimension_count=64,
        attention__sliding_window_pattern=[i not in MIMO_FULL for i in range(48)],
    ),
    "deepseek-moe-16b": mixed(
        "deepseek", 16_375_728_128, (28, 2048, 10944, 16, 16, 128, 102400),
        lambda i: DEEPSEEK | (experts(2048, 1408, 64, 2816) if i else gated(2048, 10944)),
        kv(28, 16, 128), expert_count=64, expert_used_count=6, leading_dense_block_count=1,
    ),
    "ling-lite": mixed(
        "bailingmoe", 16.80e9, (28, 2048, 5632, 16, 4, 128, 126464), lambda i: LING,
        kv(28, 4, 128), expert_count=64, expert_used_count=6, expert_weights_norm=True,
    ),
    "ling-mini-2.0": mixed(
        "bailingmoe2", 16.26e9, (20, 2048, 5120, 16, 4, 128, 157184),
        lambda i: LING2 | (LING2_EXPERTS if i else gated(2048, 5120)), kv(20, 4, 128),
        expert_count=256, expert_used_count=8, expert_group_count=8, expert_group_used_count=4,
        expert_gating_func=2, rope__dimension_count=64,
    ),
    "smallthinker-21b-a3b": mixed(
        "smallthinker", 21.5e9, (52, 2560, 768, 28, 4, 128, 151936), lambda i: THINKER,
        kv(13, 4, 128) + kv(39, 4, 128, 4096 + 512), expert_count=64, expert_used_count=6,
        expert_gating_func=2, attention__sliding_window=4096,
    ),
}  # fmt: skip
