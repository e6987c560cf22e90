"""Models of attention alone, with and without experts, as they are published."""

from tests.engine.models.published.size import (
    NORMS,
    attention,
    dense,
    experts,
    gated,
    kv,
    mixed,
    vectors,
)

SCOUT = (
    {"attn_norm": (5120,), "ffn_norm": (5120,)}
    | attention(5120, 40, 8, 128)
    | experts(5120, 8192, 16, 8192)
)
QWEN2 = (28, 3584, 18944, 28, 4, 128, 152064)
QWEN3 = (36, 4096, 12288, 32, 8, 128, 151936)
BIASES = {"attn_q.bias": (3584,), "attn_k.bias": (512,), "attn_v.bias": (512,)}
HEADS = vectors("attn_q_norm attn_k_norm", 128)
SIZES = {
    "llama-3.1-8b": dense("llama", 8_030_261_248, (32, 4096, 14336, 32, 8, 128, 128256)),
    "qwen2.5-7b": dense("qwen2", 7_615_616_512, QWEN2, BIASES),
    "qwen2-vl-7b": dense(
        "qwen2vl", 7_615_616_512, QWEN2, BIASES, rope__dimension_sections=[16, 24, 24, 0]
    ),
    "qwen3-8b": dense("qwen3", 8_190_735_360, QWEN3, HEADS),
    "qwen3-vl-8b": dense(
        "qwen3vl", 8_190_735_360, QWEN3, HEADS,
        rope__dimension_sections=[24, 20, 20, 0], n_deepstack_layers=3,
    ),
    "mistral-small-24b": dense("mistral3", 23_572_403_200, (40, 5120, 32768, 32, 8, 128, 131072)),
    "gemma3-4b": dense(
        "gemma3", 3_880_099_328, (34, 2560, 10240, 8, 4, 256, 262144),
        {**vectors("attn_q_norm attn_k_norm", 256),
         **vectors("post_attention_norm post_ffw_norm", 2560)},
        tied=True,
        # Five layers of six see 1024 tokens, beside a step of 512.
        cache=kv(5, 4, 256) + kv(29, 4, 256, 1024 + 512),
        attention__sliding_window=1024,
    ),
    "llama4-scout": mixed(
        "llama4", 107_769_856_000, (48, 5120, 16384, 40, 8, 128, 202048), lambda i: SCOUT,
        # Three layers of four see chunks of 8192 tokens, beside a step of 512.
        kv(12, 8, 128) + kv(36, 8, 128),
        expert_count=16, expert_used_count=1, interleave_moe_layer_step=1,
        expert_feed_forward_length=8192,
    ),
    "mixtral-8x7b": mixed(
        "llama", 46_702_792_704, (32, 4096, 14336, 32, 8, 128, 32000),
        lambda i: {**vectors(NORMS, 4096), **attention(4096, 32, 8, 128),
                   **experts(4096, 14336, 8)},
        kv(32, 8, 128), expert_count=8, expert_used_count=2,
    ),
    "qwen3-30b-a3b": mixed(
        "qwen3moe", 30_532_122_624, (48, 2048, 6144, 32, 4, 128, 151936),
        lambda i: {**vectors(NORMS, 2048), **attention(2048, 32, 4, 128), **HEADS,
                   **experts(2048, 768, 128)},
        kv(48, 4, 128), expert_count=128, expert_used_count=8, expert_feed_forward_length=768,
    ),
    "phi-4": mixed(
        "phi3", 14_659_507_200, (40, 5120, 17920, 40, 10, 128, 100352),
        lambda i: {**vectors(NORMS, 5120), "attn_qkv": (5120, 7680), "attn_output": (5120, 5120),
                   "ffn_up": (5120, 35840), "ffn_down": (17920, 5120)},
        kv(40, 10, 128), rope__dimension_count=128, attention__sliding_window=0,
    ),
    "gemma2-2b": dense(
        "gemma2", 2_614_341_888, (26, 2304, 9216, 8, 4, 256, 256000),
        vectors("post_attention_norm post_ffw_norm", 2304), tied=True,
        # Every other layer sees 4096 tokens, beside a step of 512.
        cache=kv(13, 4, 256) + kv(13, 4, 256, 4096 + 512), attention__sliding_window=4096,
    ),
    "gemma-2b": dense("gemma", 2_506_172_416, (18, 2048, 16384, 8, 1, 256, 256000), tied=True),
    "afm-4.5b": mixed(
        "arcee", 4.62e9, (36, 2560, 18432, 20, 4, 128, 128003),
        lambda i: {**vectors(NORMS, 2560), **attention(2560, 20, 4, 128),
                   "ffn_up": (2560, 18432), "ffn_down": (18432, 2560)},
        kv(36, 4, 128),
    ),
    "ernie-4.5-0.3b": dense(
        "ernie4_5", 360_748_032, (18, 1024, 3072, 16, 2, 128, 103424), tied=True
    ),
    "paddleocr-vl": dense(
        "paddleocr", 466_654_208, (18, 1024, 3072, 16, 2, 128, 103424),
        rope__dimension_sections=[16, 24, 24, 0],
    ),
    "hunyuan-4b": dense(
        "hunyuan-dense", 4.22e9, (36, 3072, 8192, 32, 8, 128, 120818), HEADS, tied=True
    ),
    "smollm3-3b": dense(
        "smollm3", 3_075_098_624, (36, 2048, 11008, 16, 4, 128, 128256), tied=True
    ),
    "olmo2-7b": mixed(
        "olmo2", 7_298_617_344, (32, 4096, 11008, 32, 32, 128, 100352),
        lambda i: {**vectors("post_attention_norm post_ffw_norm attn_q_norm attn_k_norm", 4096),
                   **attention(4096, 32, 32, 128), **gated(4096, 11008)},
        kv(32, 32, 128),
    ),
    "granite-3.3-8b": dense(
        "granite", 8_170_848_256, (40, 4096, 12800, 32, 8, 128, 49159), tied=True,
        embedding_scale=12.0, residual_scale=0.22, logit_scale=16.0, attention__scale=0.0078125,
    ),
    "glm4-9b": mixed(
        "glm4", 9_400_279_040, (40, 4096, 13696, 32, 2, 128, 151552),
        lambda i: {**vectors(NORMS + " post_attention_norm post_ffw_norm", 4096),
                   **attention(4096, 32, 2, 128), "ffn_up": (4096, 27392),
                   "ffn_down": (13696, 4096)},
        kv(40, 2, 128), rope__dimension_count=64,
    ),
    "seed-oss-36b": mixed(
        "seed_oss", 36_151_104_512, (64, 5120, 27648, 80, 8, 128, 155136),
        lambda i: {**vectors("attn_norm post_attention_norm", 5120), **attention(5120, 80, 8, 128),
                   **gated(5120, 27648), "attn_q.bias": (10240,), "attn_k.bias": (1024,),
                   "attn_v.bias": (1024,)},
        kv(64, 8, 128),
    ),
}  # fmt: skip
