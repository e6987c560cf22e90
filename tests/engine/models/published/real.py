"""What real files say of themselves, by public listings of their metadata and logs of loading them.

Types are those of the files: i32 and bool arrays, and in Gemma 3n a float that counts layers.
"""

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

Value = int | float | bool | str | list[int] | list[float] | list[bool]
Keys = Mapping[str, Value]


class Real(NamedTuple):
    """`source` is where its metadata were read, `n_layer` what its layers are without those that
    predict further tokens, `pre` its pre-tokenizer.
    """

    source: str
    arch: str
    n_layer: int
    pre: str
    keys: Keys


def keys(
    sizes: tuple[int, int, int], heads: tuple[Value, Value], base: float, eps: float, **more: Value
) -> Keys:
    """Of L, the context and E; F and all else are in `more`, "." written "__"."""
    made: dict[str, Value] = dict(
        zip(("block_count", "context_length", "embedding_length"), sizes, strict=True)
    )
    made |= {"attention.head_count": heads[0], "attention.head_count_kv": heads[1]}
    made |= {"rope.freq_base": base, "attention.layer_norm_rms_epsilon": eps}
    return made | {name.replace("__", "."): value for name, value in more.items()}


def head(length: int) -> dict[str, Value]:
    return {"attention__key_length": length, "attention__value_length": length}


def yarn(factor: float, original: int, **more: Value) -> dict[str, Value]:
    made: dict[str, Value] = {"rope__scaling__type": "yarn", "rope__scaling__factor": factor}
    made["rope__scaling__original_context_length"] = original
    return made | {f"rope__scaling__{name}": value for name, value in more.items()}


def delta(rank: int, inner: int) -> dict[str, Value]:
    made: dict[str, Value] = {"ssm__conv_kernel": 4, "ssm__state_size": 128, "ssm__group_count": 16}
    made |= {"ssm__time_step_rank": rank, "ssm__inner_size": inner, "full_attention_interval": 4}
    return made | {"rope__dimension_count": 64, **head(256)}


def experts(count: int, used: int, length: int, **more: Value) -> dict[str, Value]:
    made: dict[str, Value] = {"expert_count": count, "expert_used_count": used}
    return made | {"expert_feed_forward_length": length, **more}


def gemma4(n: int, every: int, window: int) -> dict[str, Value]:
    made: dict[str, Value] = {"rope__freq_base_swa": 1e4, "final_logit_softcapping": 30.0}
    made |= {"attention__sliding_window": window, "attention__key_length_swa": 256}
    made |= {"attention__value_length_swa": 256, "rope__dimension_count_swa": 256}
    pattern = [(i + 1) % every != 0 for i in range(n)]
    return made | head(512) | {
        "attention__sliding_window_pattern": pattern, "rope__dimension_count": 512
    }  # fmt: skip


def by_kind(n: int, every: int, windowed: int, whole: int) -> list[int]:
    return [windowed if (i + 1) % every else whole for i in range(n)]


SECTIONS: dict[str, Value] = {"rope__dimension_sections": [11, 11, 10, 0]}
NANO3 = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
SPLIT, ALONE = {"nextn_predict_layers": 1}, {"attention__shared_kv_layers": 0}
MISTRAL3 = {
    **head(128), "rope__dimension_count": 128, "vocab_size": 131072,
    "attention__temperature_scale": 0.1,
}  # fmt: skip
RAMP = {"yarn_beta_fast": 32.0, "yarn_beta_slow": 1.0}
REAL = {
    "qwen3.8-27b": Real(
        "listing", "qwen35", 64, "qwen35",
        keys((65, 262144, 5120), (24, 4), 1e7, 1e-6, feed_forward_length=17408, **SECTIONS,
             **delta(48, 6144), **SPLIT),
    ),
    "qwen3.5-122b-a10b": Real(
        "listing", "qwen35moe", 48, "qwen35",
        keys((49, 262144, 3072), (32, 2), 1e7, 1e-6, **SECTIONS, **delta(64, 8192), **SPLIT,
             **experts(256, 8, 1024, expert_shared_feed_forward_length=1024)),
    ),
    "qwen3-next-80b-a3b": Real(
        "listing", "qwen3next", 48, "qwen2",
        keys((48, 262144, 2048), (16, 2), 1e7, 1e-6, feed_forward_length=5120, **delta(32, 4096),
             **experts(512, 10, 512, expert_shared_feed_forward_length=512)),
    ),
    "qwen3-omni-30b-a3b": Real(
        "listing", "qwen3vlmoe", 48, "qwen2",
        keys((48, 65536, 2048), (32, 4), 1e6, 1e-6, feed_forward_length=768, n_deepstack_layers=0,
             rope__dimension_sections=[24, 20, 20, 0], **head(128),
             **experts(128, 8, 768, expert_shared_feed_forward_length=0)),
    ),
    "gemma-4-12b": Real(
        "listing", "gemma4", 48, "gemma4",
        keys((48, 262144, 3840), (16, by_kind(48, 6, 8, 1)), 1e6, 1e-6, feed_forward_length=15360,
             embedding_length_per_layer_input=0, **ALONE, **gemma4(48, 6, 1024)),
    ),
    "gemma-4-26b-a4b": Real(
        "log", "gemma4", 30, "gemma4",
        keys((30, 262144, 2816), (16, by_kind(30, 6, 8, 2)), 1e6, 1e-6, feed_forward_length=2112,
             embedding_length_per_layer_input=0, **ALONE, **gemma4(30, 6, 1024),
             **experts(128, 8, 704)),
    ),
    "gemma-4-e2b": Real(
        "log", "gemma4", 35, "gemma4",
        keys((35, 131072, 1536), (8, 1), 1e6, 1e-6,
             feed_forward_length=[6144] * 15 + [12288] * 20, attention__shared_kv_layers=20,
             embedding_length_per_layer_input=256, **gemma4(35, 5, 512)),
    ),
    "gemma-3n-e2b": Real(
        "notes", "gemma3n", 30, "default",
        keys((30, 32768, 2048), (8, 2), 1e6, 1e-6, feed_forward_length=[8192] * 30, **head(256),
             altup__num_inputs=4, altup__active_idx=0, attention__shared_kv_layers=10.0,
             embedding_length_per_layer_input=256, attention__sliding_window=512,
             activation_sparsity_scale=[1.6448533535003662] * 10 + [-inf] * 20,
             attention__sliding_window_pattern=[(i + 1) % 5 != 0 for i in range(30)]),
    ),
    "gpt-oss-20b": Real(
        "listing", "gpt-oss", 24, "gpt-4o",
        keys((24, 131072, 2880), (64, 8), 150000.0, 1e-5, feed_forward_length=2880, **head(64),
             attention__sliding_window=128, **experts(32, 4, 2880), **yarn(32.0, 4096, **RAMP)),
    ),
    "glm-4.5-air": Real(
        "log", "glm4moe", 46, "glm4",
        keys((47, 131072, 4096), (96, 8), 1e6, 1e-5, feed_forward_length=10944, **head(128),
             rope__dimension_count=64, expert_shared_count=1, leading_dense_block_count=1,
             expert_gating_func=2, expert_weights_scale=1.0, expert_weights_norm=True, **SPLIT,
             **experts(128, 8, 1408)),
    ),
    "glm-4.7-flash": Real(
        "listing", "deepseek2", 47, "glm4",
        keys((47, 202752, 2048), (20, 1), 1e6, 1e-5, feed_forward_length=10240,
             attention__q_lora_rank=768, attention__kv_lora_rank=512, attention__key_length=576,
             attention__value_length=512, attention__key_length_mla=256,
             attention__value_length_mla=256, rope__dimension_count=64, expert_gating_func=2,
             expert_group_count=1, expert_group_used_count=1, leading_dense_block_count=1,
             expert_shared_count=1, expert_weights_scale=1.8, expert_weights_norm=True,
             **experts(64, 4, 1536)),
    ),
    "deepseek-coder-v2-lite": Real(
        "notes", "deepseek2", 27, "deepseek-llm",
        keys((27, 163840, 2048), (16, 16), 1e4, 1e-6, feed_forward_length=10944,
             attention__kv_lora_rank=512, attention__key_length=192, attention__value_length=128,
             rope__dimension_count=64, leading_dense_block_count=1, expert_shared_count=2,
             expert_weights_scale=1.0, **experts(64, 6, 1408),
             **yarn(40.0, 4096, yarn_log_multiplier=0.0707)),
    ),
    "ling-1t": Real(
        "log", "bailingmoe2", 80, "bailingmoe2",
        keys((80, 32768, 8192), (64, 8), 6e5, 1e-6, feed_forward_length=18432, **head(128),
             rope__dimension_count=64, rope__scaling__type="none", leading_dense_block_count=4,
             expert_shared_feed_forward_length=2048, expert_weights_scale=2.5,
             expert_shared_count=1, expert_group_count=8, expert_group_used_count=4,
             expert_weights_norm=True, expert_gating_func=2, **experts(256, 8, 2048)),
    ),
    "minimax-m2.7": Real(
        "log", "minimax-m2", 62, "minimax-m2",
        keys((62, 196608, 3072), (48, 8), 5e6, 1e-6, feed_forward_length=1536, **head(128),
             expert_gating_func=2, rope__dimension_count=64, **experts(256, 8, 1536)),
    ),
    "ministral-3-14b": Real(
        "listing", "mistral3", 40, "tekken",
        keys((40, 262144, 5120), (32, 8), 1e9, 1e-5, feed_forward_length=16384, **MISTRAL3,
             **yarn(16.0, 16384, yarn_log_multiplier=1.0, **RAMP)),
    ),
    "nemotron-3-nano-omni": Real(
        "listing", "nemotron_h_moe", 52, "pixtral",
        keys((52, 1048576, 2688), (32, [2 * (c == "*") for c in NANO3]), 1e4, 1e-5,
             feed_forward_length=[1856 * (c == "E") for c in NANO3], **head(128),
             attention__layer_norm_epsilon=1e-5, rope__dimension_count=84,
             rope__scaling__finetuned=False, ssm__conv_kernel=4, ssm__state_size=128,
             ssm__group_count=8, ssm__inner_size=4096, ssm__time_step_rank=64,
             expert_group_count=1, expert_group_used_count=1, expert_shared_count=1,
             expert_weights_norm=True, expert_weights_scale=2.5,
             expert_shared_feed_forward_length=3712, **experts(128, 6, 1856)),
    ),
    "laguna-s-2.1": Real(
        "listing", "laguna", 48, "laguna",
        keys((48, 1048576, 3072), (by_kind(48, 4, 72, 48), 8), 5e5, 1e-6,
             feed_forward_length=12288, rope__freq_base_swa=1e4, attention__sliding_window=512,
             rope__dimension_count=64, rope__dimension_count_swa=128, **head(128),
             expert_shared_feed_forward_length=1024, expert_weights_norm=True,
             expert_weights_scale=2.5, expert_gating_func=2, leading_dense_block_count=1,
             **experts(256, 10, 1024), **yarn(128.0, 8192, yarn_attn_factor=1.485203, **RAMP)),
    ),
    "muse-glimmer-30b": Real(
        "listing", "muse-glimmer", 52, "llama4",
        keys((52, 131072, 6656), (32, 2), 5e5, 1e-5, feed_forward_length=19968, **head(128),
             final_logit_softcapping=20.0, logit_scale=0.19611613,
             attention__sliding_window=2048, attention__sliding_window_pattern=4),
    ),
    "granite-4.2-30b": Real(
        "listing", "granite", 64, "granite-docling",
        keys((64, 131072, 4096), (32, 8), 5e7, 1e-5, feed_forward_length=32768,
             rope__dimension_count=128, attention__scale=0.0078125, embedding_scale=1.0,
             residual_scale=1.0, logit_scale=1.0),
    ),
    "lfm2-1.2b": Real(
        "log", "lfm2", 16, "lfm2",
        keys((16, 128000, 2048), (32, [8 * (i in (2, 5, 8, 10, 12, 14)) for i in range(16)]), 1e6,
             1e-5, feed_forward_length=8192, shortconv__l_cache=3),
    ),
    "minicpm5-2b": Real(
        "listing", "llama", 42, "minicpm5",
        keys((42, 131072, 2048), (16, 2), 5e6, 1e-6, feed_forward_length=6144, **head(128),
             rope__dimension_count=128),
    ),
}  # fmt: skip

HALVES = [0.5, 0.5, 0.5]
MEAN, STD = [0.48145466, 0.4578275, 0.40821072], [0.26862955, 0.2613026, 0.2757771]


def tower(
    kind: str, sizes: tuple[int, ...], colours: tuple[list[float], list[float]], **more: Value
) -> Keys:
    """Of the picture's and the patch's side, E, F, L and heads."""
    names = ("image_size", "patch_size", "embedding_length", "feed_forward_length", "block_count")
    names = (*names, "attention.head_count")
    made: dict[str, Value] = {"has_vision_encoder": True}
    made |= {f"vision.{name}": size for name, size in zip(names, sizes, strict=True)}
    made |= {"vision.image_mean": colours[0], "vision.image_std": colours[1]}
    made["vision.projector_type" if kind.startswith("gemma4") else "projector_type"] = kind
    return made | {name.replace("__", "."): value for name, value in more.items()}


BIG = (1152, 4304, 27, 16)
TOWERS = {
    "qwen3.8-27b": tower(
        "qwen3vl_merger", (768, 16, *BIG), (HALVES, HALVES), use_gelu=True,
        vision__spatial_merge_size=2, vision__attention__layer_norm_epsilon=1e-6,
        vision__is_deepstack_layers=[False] * 27, vision__projection_dim=5120,
    ),
    "gemma-4-26b-a4b": tower(
        "gemma4v", (224, 16, *BIG), ([0.0] * 3, [1.0] * 3), vision__projection_dim=2816,
        vision__attention__layer_norm_epsilon=1e-6,
    ),
    "gemma-4-12b": tower(
        "gemma4uv", (224, 16, 3840, 0, 0, 0), ([0.0] * 3, [1.0] * 3), has_audio_encoder=True,
        vision__projection_dim=3840, vision__attention__layer_norm_epsilon=1e-6,
        audio__projector_type="gemma4ua", audio__block_count=0, audio__embedding_length=640,
    ),
    "ministral-3-14b": tower(
        "pixtral", (1540, 14, 1024, 4096, 24, 16), (MEAN, STD), use_silu=True,
        rope__freq_base=1e4, vision__spatial_merge_size=2, vision__projection_dim=16384,
        vision__attention__layer_norm_epsilon=1e-5,
    ),
    "granite-vision": tower(
        "mlp", (384, 14, *BIG), (MEAN, STD), has_text_encoder=False, has_llava_projector=True,
        vision__feature_layer=[4, 8, 16, 27], vision__projection_dim=0,
        vision__attention__layer_norm_epsilon=1e-5,
    ),
}  # fmt: skip

TENSORS = {
    "qwen3.5-27b": 851, "qwen3.5-35b-a3b": 733, "qwen3-next-80b": 843, "gpt-oss-20b": 459,
    "minimax-m2": 809, "muse-glimmer-30b": 731, "nemotron-3-nano-30b": 401,
    "qwen3-vl-30b-a3b": 579, "qwen3-30b-a3b": 579, "mistral-small-24b": 363,
    "ernie-4.5-0.3b": 164, "bge-small-en-v1.5": 197,
    "gemma4-31b": 833 - 1,  # factors of RoPE
    "glm-4.5-air": 803 - 23,  # a block that predicts
    "gemma-3n-e4b": 727 + 5 * 24,  # E2B's, and five layers more
}  # fmt: skip
"""How many tensors real files of these sizes have."""

TOWERS_TENSORS = {
    "qwen3.6-27b": ("qwen35", 27, 334), "qwen3.5-2b": ("qwen35", 24, 298),
    "ministral-3": ("mistral3", 24, 223), "qwen2.5-vl-7b": ("qwen25vl", 32, 519),
}  # fmt: skip
"""The golden with its tower, its blocks, and how many tensors real projectors have."""
