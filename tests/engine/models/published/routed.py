"""Models whose every layer has experts, as they are published."""

from tests.engine.models.published.size import attention, experts, gated, kv, mixed, vectors

PRE = "attn_norm post_attention_norm"
OSS = {
    **vectors(PRE, 2880),
    **attention(2880, 64, 8, 64),
    "attn_q.bias": (4096,),
    "attn_k.bias": (512,),
    "attn_v.bias": (512,),
    "attn_output.bias": (2880,),
    "attn_sinks": (64,),
    "ffn_gate_inp.bias": (32,),
    **experts(2880, 2880, 32),
    **dict.fromkeys(("ffn_gate_exps.bias", "ffn_up_exps.bias", "ffn_down_exps.bias"), (2880, 32)),
}
QWEN2 = {
    **vectors("attn_norm ffn_norm", 2048),
    **attention(2048, 16, 16, 128),
    **dict.fromkeys(("attn_q.bias", "attn_k.bias", "attn_v.bias"), (2048,)),
    **experts(2048, 1408, 60, 5632),
    "ffn_gate_inp_shexp": (2048,),
}
GRANITE = vectors("attn_norm ffn_norm", 1024) | attention(1024, 16, 8, 64) | experts(1024, 512, 32)
MINIMAX = {
    **vectors("attn_norm ffn_norm", 3072),
    **attention(3072, 48, 8, 128),
    "attn_q_norm": (6144,),
    "attn_k_norm": (1024,),
    "exp_probs_b.bias": (256,),
    **experts(3072, 1536, 256),
}
OLMOE = {
    **vectors("attn_norm ffn_norm attn_q_norm attn_k_norm", 2048),
    **attention(2048, 16, 16, 128),
    **experts(2048, 1024, 64),
}
ERNIE = vectors("attn_norm ffn_norm", 2560) | attention(2560, 20, 4, 128)
ERNIE_EXPERTS = experts(2560, 1536, 64, 2 * 1536) | {"exp_probs_b.bias": (64, 1)}
GROK1 = {
    **vectors("attn_norm attn_output_norm ffn_norm layer_output_norm", 6144),
    **attention(6144, 48, 8, 128),
    **experts(6144, 32768, 8),
}
GROK2 = {
    **vectors("attn_norm attn_output_norm ffn_norm post_ffw_norm", 8192),
    **attention(8192, 64, 8, 128),
    **gated(8192, 32768),
    **experts(8192, 16384, 8),
}
GROVE = {
    **vectors("attn_norm ffn_norm", 2048),
    **attention(2048, 32, 4, 128),
    **vectors("attn_q_norm attn_k_norm", 128),
    **experts(2048, 768, 128),
    **{f"ffn_{part}_chexps": (2048, 128, 64) for part in ("gate", "up")},
    "ffn_down_chexps": (128, 2048, 64),
}
SIZES = {
    "grovemoe": mixed(
        "grovemoe", 32.95e9, (48, 2048, 6144, 32, 4, 128, 151936), lambda i: GROVE,
        kv(48, 4, 128), expert_count=128, expert_used_count=8, expert_feed_forward_length=768,
        expert_chunk_feed_forward_length=128, experts_per_group=2, expert_group_scale=0.05,
    ),
    "grok-1": mixed(
        "grok", 316.49e9, (64, 6144, 32768, 48, 8, 128, 131072), lambda i: GROK1,
        kv(64, 8, 128), expert_count=8, expert_used_count=2,
    ),
    "grok-2": mixed(
        "grok", 269.5e9, (64, 8192, 32768, 64, 8, 128, 131072), lambda i: GROK2,
        kv(64, 8, 128), expert_count=8, expert_used_count=2, expert_feed_forward_length=16384,
        final_logit_softcapping=50.0, rope__scaling__type="yarn", rope__scaling__factor=16.0,
        rope__scaling__original_context_length=8192,
    ),
    "olmoe-1b-7b": mixed(
        "olmoe", 6_919_161_856, (16, 2048, 1024, 16, 16, 128, 50304), lambda i: OLMOE,
        kv(16, 16, 128, 4096), context_length=4096, expert_count=64, expert_used_count=8,
    ),
    "ernie-4.5-21b-a3b": mixed(
        "ernie4_5-moe", 21_825_437_888, (28, 2560, 12288, 20, 4, 128, 103424),
        lambda i: ERNIE | (ERNIE_EXPERTS if i else gated(2560, 12288)), kv(28, 4, 128), tied=True,
        expert_count=64, expert_used_count=6, expert_feed_forward_length=1536,
        expert_shared_count=2, expert_shared_feed_forward_length=3072,
        leading_dense_block_count=1, interleave_moe_layer_step=1,
    ),
    "gpt-oss-20b": mixed(
        "gpt-oss", 20_914_757_184, (24, 2880, 2880, 64, 8, 64, 201088), lambda i: OSS,
        # Every other layer sees 128 tokens, beside a step of 512.
        kv(12, 8, 64) + kv(12, 8, 64, 768), expert_count=32, expert_used_count=4,
        expert_feed_forward_length=2880, attention__sliding_window=128,
        rope__scaling__type="yarn", rope__scaling__factor=32.0,
        rope__scaling__original_context_length=4096,
    ),
    "qwen1.5-moe-a2.7b": mixed(
        "qwen2moe", 14_315_784_192, (24, 2048, 5632, 16, 16, 128, 151936), lambda i: QWEN2,
        kv(24, 16, 128), expert_count=60, expert_used_count=4, expert_feed_forward_length=1408,
        expert_shared_feed_forward_length=5632,
    ),
    "granite-3.1-1b-a400m": mixed(
        "granitemoe", 1_334_000_000, (24, 1024, 512, 16, 8, 64, 49155), lambda i: GRANITE,
        kv(24, 8, 64), tied=True, expert_count=32, expert_used_count=8,
        embedding_scale=12.0, residual_scale=0.22, logit_scale=6.0, attention__scale=0.015625,
    ),
    "minimax-m2": mixed(
        "minimax-m2", 228.7e9, (62, 3072, 1536, 48, 8, 128, 200064), lambda i: MINIMAX,
        kv(62, 8, 128), expert_count=256, expert_used_count=8, expert_feed_forward_length=1536,
        expert_gating_func=2, rope__dimension_count=64,
    ),
    "qwen3-vl-30b-a3b": mixed(
        "qwen3vlmoe", 30_532_122_624, (48, 2048, 6144, 32, 4, 128, 151936),
        lambda i: {**vectors("attn_norm ffn_norm", 2048), **attention(2048, 32, 4, 128),
                   **vectors("attn_q_norm attn_k_norm", 128), **experts(2048, 768, 128)},
        kv(48, 4, 128), expert_count=128, expert_used_count=8, expert_feed_forward_length=768,
        rope__dimension_sections=[24, 20, 20, 0], n_deepstack_layers=3,
    ),
}  # fmt: skip
