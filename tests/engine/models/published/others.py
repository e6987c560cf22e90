"""Models of other blocks: one norm a layer, norms behind, biases, latents."""

from collections.abc import Mapping
from dataclasses import replace

from tests.engine.models.published.header import Value
from tests.engine.models.published.size import (
    CONTEXT,
    HALF,
    Block,
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

Shape = tuple[int, ...]
EPS: Mapping[str, Value] = {"attention__layer_norm_epsilon": 1e-5}


def biased(names: str, sizes: Mapping[str, int]) -> dict[str, Shape]:
    return {f"{name}.bias": (sizes[name],) for name in names.split()}


def plain(e: int, f: int) -> dict[str, Shape]:
    """A feed-forward without a gate, and its biases."""
    made = {"ffn_up": (e, f), "ffn_down": (f, e)}
    return made | {"ffn_up.bias": (f,), "ffn_down.bias": (e,)}


def with_first(size: Size, more: Mapping[str, Shape]) -> Size:
    """The same with further tensors of the whole model."""
    return replace(size, shapes={**size.shapes, **more})


PHI2 = {
    "attn_norm": (2560,), "attn_norm.bias": (2560,), **attention(2560, 32, 32, 80),
    **biased("attn_q attn_k attn_v attn_output", dict.fromkeys(
        ("attn_q", "attn_k", "attn_v", "attn_output"), 2560)),
    **plain(2560, 10240),
}  # fmt: skip
STARCODER2 = {
    **vectors("attn_norm ffn_norm", 3072), "attn_norm.bias": (3072,), "ffn_norm.bias": (3072,),
    **attention(3072, 24, 2, 128), **plain(3072, 12288),
    **biased("attn_q attn_k attn_v attn_output",
             {"attn_q": 3072, "attn_k": 256, "attn_v": 256, "attn_output": 3072}),
}  # fmt: skip
STABLELM2 = {
    **vectors("attn_norm ffn_norm", 2048), "attn_norm.bias": (2048,), "ffn_norm.bias": (2048,),
    **attention(2048, 32, 32, 64), **gated(2048, 5632),
    **biased("attn_q attn_k attn_v", dict.fromkeys(("attn_q", "attn_k", "attn_v"), 2048)),
}  # fmt: skip
GPT2 = {
    **vectors("attn_norm ffn_norm", 768), "attn_norm.bias": (768,), "ffn_norm.bias": (768,),
    "attn_qkv": (768, 2304), "attn_qkv.bias": (2304,), "attn_output": (768, 768),
    "attn_output.bias": (768,), **plain(768, 3072),
}  # fmt: skip
PYTHIA = {
    **vectors("attn_norm ffn_norm", 2048), "attn_norm.bias": (2048,), "ffn_norm.bias": (2048,),
    "attn_qkv": (2048, 6144), "attn_qkv.bias": (6144,), "attn_output": (2048, 2048),
    "attn_output.bias": (2048,), **plain(2048, 8192),
}  # fmt: skip
MINITRON = {
    **vectors("attn_norm ffn_norm", 3072), "attn_norm.bias": (3072,), "ffn_norm.bias": (3072,),
    **attention(3072, 24, 8, 128), "ffn_up": (3072, 9216), "ffn_down": (9216, 3072),
}  # fmt: skip
LATENT = {
    **vectors("attn_norm ffn_norm", 2048), "attn_q": (2048, 16 * 192),
    "attn_kv_a_mqa": (2048, 576), "attn_kv_a_norm": (512,), "attn_k_b": (128, 512, 16),
    "attn_v_b": (512, 128, 16), "attn_output": (2048, 2048),
}  # fmt: skip
BERT_BLOCK = {
    **attention(384, 12, 12, 32), **plain(384, 1536),
    **vectors("attn_output_norm layer_output_norm", 384),
    **{f"{name}.bias": (384,) for name in (
        "attn_q", "attn_k", "attn_v", "attn_output", "attn_output_norm", "layer_output_norm")},
}  # fmt: skip
NOMIC_BLOCK = {
    "attn_qkv": (768, 2304), "attn_output": (768, 768), **gated(768, 3072),
    **vectors("attn_output_norm layer_output_norm", 768),
    "attn_output_norm.bias": (768,), "layer_output_norm.bias": (768,),
}  # fmt: skip
MODERN_BLOCK = {
    "attn_qkv": (768, 2304), "attn_output": (768, 768), "ffn_norm": (768,),
    "ffn_up": (768, 2304), "ffn_down": (1152, 768),
}  # fmt: skip
NOMIC_MOE = {
    "attn_qkv": (768, 2304), "attn_qkv.bias": (2304,), "attn_output": (768, 768),
    "attn_output.bias": (768,), **vectors("attn_output_norm layer_output_norm", 768),
    "attn_output_norm.bias": (768,), "layer_output_norm.bias": (768,),
}  # fmt: skip
NOMIC_EXPERTS = {
    "ffn_gate_inp": (768, 8), "ffn_up_exps": (768, 3072, 8), "ffn_down_exps": (3072, 768, 8),
}  # fmt: skip
EMBEDDING_GEMMA = {
    **vectors("attn_norm post_attention_norm ffn_norm post_ffw_norm", 768),
    **vectors("attn_q_norm attn_k_norm", 256), **attention(768, 3, 1, 256), **gated(768, 1152),
}  # fmt: skip
AIR = {
    **vectors("attn_norm post_attention_norm", 4096), **attention(4096, 96, 8, 128),
    **biased("attn_q attn_k attn_v", {"attn_q": 12288, "attn_k": 1024, "attn_v": 1024}),
}  # fmt: skip
GEMMA3N = {
    **vectors("attn_norm post_attention_norm ffn_norm post_ffw_norm post_norm", 2048),
    **vectors("attn_q_norm attn_k_norm", 256), **attention(2048, 8, 2, 256), **gated(2048, 16384),
    "laurel_l": (2048, 64), "laurel_r": (64, 2048), "inp_gate": (2048, 256), "proj": (256, 2048),
    **vectors("laurel_post_norm altup_router_norm altup_correct_scale", 2048),
    "altup_router": (2048, 4), "altup_predict_coef": (4, 16), "altup_correct_coef": (4, 4),
}  # fmt: skip


def encoder(
    arch: str,
    params: float,
    sizes: tuple[int, int, int, int, int, int, int],
    block: Block,
    around: Mapping[str, Shape],
    **others: Value,
) -> Size:
    """Keeps nothing; `around` has what stands before the first block and behind the last."""
    n, e, f, h, k, d, v = sizes
    made = whole(n, e, v, block, tied=True)
    kept = {name: shape for name, shape in made.items() if name != "output_norm.weight"}
    return Size(arch, params, 0, v, keys(n, e, f, h, k, d, **others), {**kept, **around})


SIZES = {
    "phi-2": mixed(
        "phi2", 2_779_683_840, (32, 2560, 10240, 32, 32, 80, 51200), lambda i: PHI2,
        kv(32, 32, 80), rope__dimension_count=32, **EPS,
    ),
    "starcoder2-3b": mixed(
        "starcoder2", 3_030_371_328, (30, 3072, 12288, 24, 2, 128, 49152), lambda i: STARCODER2,
        kv(30, 2, 128), tied=True, **EPS,
    ),
    "command-r-35b": mixed(
        "command-r", 34_980_831_232, (40, 8192, 22528, 64, 64, 128, 256000),
        lambda i: {"attn_norm": (8192,), **attention(8192, 64, 64, 128), **gated(8192, 22528)},
        kv(40, 64, 128), tied=True, logit_scale=0.0625, **EPS,
    ),
    "stablelm-2-1.6b": mixed(
        "stablelm", 1_644_515_328, (24, 2048, 5632, 32, 32, 64, 100352), lambda i: STABLELM2,
        kv(24, 32, 64), rope__dimension_count=16, **EPS,
    ),
    "exaone-4-1.2b": mixed(
        "exaone4", 1_279_391_488, (30, 2048, 4096, 32, 8, 64, 102400),
        lambda i: {**vectors("post_attention_norm post_ffw_norm", 2048),
                   **vectors("attn_q_norm attn_k_norm", 64), **attention(2048, 32, 8, 64),
                   **gated(2048, 4096)},
        kv(30, 8, 64), tied=True,
    ),
    "deepseek-v2-lite": mixed(
        "deepseek2", 15_706_484_224, (27, 2048, 10944, 16, 1, 576, 102400),
        lambda i: LATENT | (experts(2048, 1408, 64, 2 * 1408) if i else gated(2048, 10944)),
        27 * 576 * CONTEXT * HALF,
        attention__key_length_mla=192, attention__value_length_mla=128, attention__kv_lora_rank=512,
        rope__dimension_count=64, leading_dense_block_count=1, expert_count=64,
        expert_used_count=6, expert_shared_count=2, expert_feed_forward_length=1408,
    ),
    "gpt2": with_first(
        mixed(
            "gpt2", 124_439_808, (12, 768, 3072, 12, 12, 64, 50257), lambda i: GPT2,
            kv(12, 12, 64, 1024), tied=True, context_length=1024, **EPS,
        ),
        {"position_embd.weight": (768, 1024), "output_norm.bias": (768,)},
    ),
    "pythia-1.4b": with_first(
        mixed(
            "gptneox", 1_414_647_808, (24, 2048, 8192, 16, 16, 128, 50304), lambda i: PYTHIA,
            kv(24, 16, 128, 2048), context_length=2048, rope__dimension_count=32,
            use_parallel_residual=True, **EPS,
        ),
        {"output_norm.bias": (2048,)},
    ),
    "minitron-4b": with_first(
        mixed(
            "nemotron", 4.19e9, (32, 3072, 9216, 24, 8, 128, 256000), lambda i: MINITRON,
            kv(32, 8, 128, 4096), context_length=4096, rope__dimension_count=64, **EPS,
        ),
        {"output_norm.bias": (3072,)},
    ),
    "command-r7b": mixed(
        "cohere2", 8_028_033_024, (32, 4096, 14336, 32, 8, 128, 256000),
        lambda i: {"attn_norm": (4096,), **attention(4096, 32, 8, 128), **gated(4096, 14336)},
        # Three layers of four see 4096 tokens, beside a step of 512.
        kv(8, 8, 128) + kv(24, 8, 128, 4096 + 512), tied=True, logit_scale=0.25,
        attention__sliding_window=4096, **EPS,
    ),
    "glm-4.5-air": mixed(
        "glm4moe", 106.85e9, (46, 4096, 10944, 96, 8, 128, 151552),
        lambda i: AIR | (experts(4096, 1408, 128, 1408) | {"exp_probs_b.bias": (128,)}
                         if i else gated(4096, 10944)),
        kv(46, 8, 128), rope__dimension_count=64, leading_dense_block_count=1, expert_count=128,
        expert_used_count=8, expert_shared_count=1, expert_feed_forward_length=1408,
    ),
    "bge-small-en-v1.5": encoder(
        "bert", 33_360_000, (12, 384, 1536, 12, 12, 32, 30522), lambda i: BERT_BLOCK,
        {"position_embd.weight": (384, 512), "token_embd_norm.weight": (384,),
         "token_embd_norm.bias": (384,), "token_types.weight": (384, 2)},
        context_length=512, **EPS,
    ),
    "nomic-embed-text-v1.5": encoder(
        "nomic-bert", 136_731_648, (12, 768, 3072, 12, 12, 64, 30528), lambda i: NOMIC_BLOCK,
        {"token_embd_norm.weight": (768,), "token_embd_norm.bias": (768,)},
        context_length=2048, **EPS,
    ),
    "modernbert-base": encoder(
        "modern-bert", 149_014_272, (22, 768, 1152, 12, 12, 64, 50368),
        lambda i: MODERN_BLOCK | ({"attn_norm": (768,)} if i else {}),
        {"token_embd_norm.weight": (768,), "output_norm.weight": (768,)},
        context_length=2048, attention__sliding_window=128, **EPS,
    ),
    "embeddinggemma-300m": encoder(
        "gemma-embedding", 302_863_104, (24, 768, 1152, 3, 1, 256, 262144),
        lambda i: EMBEDDING_GEMMA, {"output_norm.weight": (768,)},
        context_length=2048, attention__sliding_window=512,
    ),
    "nomic-embed-text-v2-moe": encoder(
        "nomic-bert-moe", 475_292_928, (12, 768, 3072, 12, 12, 64, 250048),
        lambda i: NOMIC_MOE | (NOMIC_EXPERTS if i % 2 else plain(768, 3072)),
        {"token_embd_norm.weight": (768,), "token_embd_norm.bias": (768,),
         "token_types.weight": (768, 1)},
        context_length=512, expert_count=8, expert_used_count=2, **EPS,
    ),
    "gemma-3n-e4b": Size(
        "gemma3n", 6.87e9,
        # Of 20 layers with keys of their own four see all, the others 512 tokens.
        kv(4, 2, 256) + kv(16, 2, 256, 512 + 512), 262400,
        keys(35, 2048, 16384, 8, 2, 256, attention__sliding_window=512,
             attention__sliding_window_pattern=[i % 5 != 4 for i in range(35)],
             attention__shared_kv_layers=15, embedding_length_per_layer_input=256),
        whole(35, 2048, 262400, lambda i: GEMMA3N, tied=True) | {
            "per_layer_token_embd.weight": (256 * 35, 262400),
            "per_layer_model_proj.weight": (2048, 256 * 35), "per_layer_proj_norm.weight": (256,),
            "altup_proj.weight": (2048, 2048, 3), "altup_unembd_proj.weight": (2048, 2048, 3),
        },
    ),
}  # fmt: skip
