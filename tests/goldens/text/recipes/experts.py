"""Experts in place of a feed-forward."""

from math import log, sqrt

from tests.goldens.text.recipe import ABSENT, NORMS, Config, Recipe
from tests.goldens.text.recipes.dense import PICTURES, SECTIONS, VISION

SIX = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 4.0,
    "original_max_position_embeddings": 128,
    "truncate": False,
}
# The magnitude is the converter's, which does not read that of the config.
LONG_ROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0, 1.25, 1.5, 2.0, 2.0, 2.5, 3.0, 4.0],
    "long_factor": [1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0, 8.0],
    "factor": 4.0,
    "original_max_position_embeddings": 128,
    **dict.fromkeys(("short_mscale", "long_mscale"), sqrt(1 + log(4) / log(128))),
}
NOT_DBRX = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
)
"""Names that its config has others for."""
GLM = {
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "routed_scaling_factor": 1.5,
    "n_group": 1,
    "topk_group": 1,
    "norm_topk_prob": True,
    "attention_bias": True,
}


def with_rotary_dim(config: Config) -> Config:
    """As the published config.json has it, and the class does not write it."""
    return {**config, "rotary_dim": 8}


def as_published(config: Config) -> Config:
    """With the name of Microsoft's own class."""
    return {**config, "architectures": ["PhiMoEForCausalLM"]}


def with_sigmoid(config: Config) -> Config:
    """As published, where the class has no other."""
    return {**config, "scoring_func": "sigmoid"}


def with_lists(config: Config) -> Config:
    """Numbers by layer, as the published config.json has them."""
    lists = {
        "moe_topk": config["moe_topk"],
        "moe_intermediate_size": config["intermediate_size"],
        "num_shared_expert": 1,
    }
    layers = config["num_hidden_layers"]
    return {**config, **{key: [value] * layers for key, value in lists.items()}}


def with_route_norm(config: Config) -> Config:
    """As published, where the class takes it for granted."""
    return {**config, "route_norm": True}


THIRD = {"rope_type": "default", "partial_rotary_factor": 0.334}


def as_flash(config: Config) -> Config:
    """As published: lists in place of kinds, and a window without the token itself."""
    ropes = config["rope_parameters"]
    same = ("head_dim", "num_attention_heads", "v_head_dim")
    return {
        **config,
        **{f"swa_{key}": config[key] for key in same},
        "swa_num_key_value_heads": 2 * config["num_key_value_heads"],
        "hybrid_layer_pattern": [int("sliding" in kind) for kind in config["layer_types"]],
        "sliding_window": config["sliding_window"] - 1,
        "topk_method": "noaux_tc",
        "scoring_func": "sigmoid",
        "layernorm_epsilon": config["rms_norm_eps"],
        "rope_theta": ropes["full_attention"]["rope_theta"],
        "swa_rope_theta": ropes["sliding_attention"]["rope_theta"],
        "partial_rotary_factor": 0.334,
        "rope_parameters": None,
    }


RECIPES = {
    "mixtral": Recipe(
        "MixtralForCausalLM",
        {"num_local_experts": 6, "num_experts_per_tok": 2, "intermediate_size": 32},
    ),
    "qwen2moe": Recipe(
        "Qwen2MoeForCausalLM",
        {
            **SIX,
            "hidden_size": 64,
            "head_dim": None,
            "shared_expert_intermediate_size": 32,
            "num_hidden_layers": 2,
            "norm_topk_prob": False,
        },
    ),
    "qwen3moe": Recipe(
        "Qwen3MoeForCausalLM",
        {**SIX, "norm_topk_prob": True},
        peaked=NORMS,
    ),
    "glm4moe": Recipe(
        "Glm4MoeForCausalLM",
        {**GLM, "use_qk_norm": True, "partial_rotary_factor": 0.5},
        peaked=NORMS,
        convert={"no_mtp": True},
    ),
    "minimax-m2": Recipe(
        "MiniMaxM2ForCausalLM",
        {
            "num_local_experts": 6,
            "num_experts_per_tok": 2,
            "intermediate_size": 32,
            "partial_rotary_factor": 0.5,
        },
        peaked=NORMS,
        edit=with_rotary_dim,
    ),
    "gpt-oss": Recipe(
        "GptOssForCausalLM",
        {
            "num_local_experts": 6,
            "num_experts_per_tok": 2,
            "intermediate_size": 32,
            "num_hidden_layers": 4,
            "sliding_window": 8,
            "rope_parameters": YARN,
        },
    ),
    "granitemoe": Recipe(
        "GraniteMoeSharedForCausalLM",
        {
            "num_local_experts": 6,
            "num_experts_per_tok": 2,
            "intermediate_size": 32,
            "shared_intermediate_size": 32,
            "hidden_size": 64,
            "head_dim": None,
            "num_hidden_layers": 2,
            "embedding_multiplier": 1.5,
            "residual_multiplier": 0.75,
            "attention_multiplier": 0.375,
            "logits_scaling": 2.5,
        },
    ),
    "laguna": Recipe(
        "LagunaForCausalLM",
        {
            **SIX,
            "num_hidden_layers": 4,
            "num_attention_heads_per_layer": [4, 6, 6, 6],
            "layer_types": ["full_attention", *["sliding_attention"] * 3],
            "sliding_window": 8,
            "shared_expert_intermediate_size": 32,
            "moe_routed_scaling_factor": 1.5,
            "rope_parameters": {
                "full_attention": {**YARN, "truncate": True, "partial_rotary_factor": 0.5},
                "sliding_attention": {"rope_type": "default", "rope_theta": 5e3},
            },
        },
        peaked=NORMS,
    ),
    "olmoe": Recipe(
        "OlmoeForCausalLM",
        {
            "hidden_size": 64,
            "head_dim": ABSENT,
            "num_experts": 6,
            "num_experts_per_tok": 2,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "norm_topk_prob": False,
        },
        peaked=NORMS,
    ),
    "ernie4_5-moe": Recipe(
        "Ernie4_5_MoeForCausalLM",
        {
            "moe_num_experts": 6,
            "moe_k": 2,
            "moe_intermediate_size": 32,
            "moe_num_shared_experts": 2,
            "moe_layer_start_index": 1,
            "moe_layer_interval": 2,
            "num_hidden_layers": 4,
        },
    ),
    "qwen3vlmoe": Recipe(
        "Qwen3VLMoeForConditionalGeneration",
        {
            **SIX,
            "num_hidden_layers": 2,
            "rope_parameters": {**SECTIONS, "mrope_interleaved": True},
        },
        peaked=NORMS,
        swapped=".experts.",
        around={
            **PICTURES,
            "vision_config": {**VISION, "out_hidden_size": 32, "deepstack_visual_indexes": [0]},
        },
    ),
    "hunyuan-moe": Recipe(
        "HunYuanMoEV1ForCausalLM",
        {"num_experts": 6, "moe_topk": 2, "intermediate_size": 32, "num_hidden_layers": 2},
        peaked={"query_layernorm": 2.0, "key_layernorm": 2.0},
        edit=with_lists,
    ),
    "dots1": Recipe(
        "Dots1ForCausalLM",
        {
            "n_routed_experts": 8,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "n_shared_experts": 2,
            "first_k_dense_replace": 1,
            "routed_scaling_factor": 1.5,
            "norm_topk_prob": True,
            "num_key_value_heads": 4,
            "sliding_window": None,
        },
        peaked=NORMS,
        edit=with_sigmoid,
    ),
    "afmoe": Recipe(
        "AfmoeForCausalLM",
        {
            **SIX,
            "num_hidden_layers": 4,
            "num_dense_layers": 1,
            "num_shared_experts": 1,
            "route_scale": 1.5,
            "sliding_window": 8,
            "mup_enabled": True,
        },
        peaked=NORMS,
        edit=with_route_norm,
    ),
    "exaone-moe": Recipe(
        "ExaoneMoeForCausalLM",
        {
            **SIX,
            "num_hidden_layers": 4,
            "first_k_dense_replace": 1,
            "routed_scaling_factor": 1.5,
            "sliding_window": 8,
        },
        peaked=NORMS,
        edit=with_sigmoid,
    ),
    "phimoe": Recipe(
        "PhimoeForCausalLM",
        {
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "intermediate_size": 32,
            "hidden_size": 64,
            "head_dim": ABSENT,
            "num_hidden_layers": 2,
            "sliding_window": 24,
            "attention_bias": True,
            "lm_head_bias": True,
            "router_jitter_noise": 0.01,
            "rope_parameters": LONG_ROPE,
        },
        edit=as_published,
        seed=2,  # no token has an expert at the edge of what is near, which f16 would move
    ),
    "dbrx": Recipe(
        "DbrxForCausalLM",
        {
            **dict.fromkeys(NOT_DBRX, ABSENT),
            "d_model": 64,
            "n_heads": 4,
            "n_layers": 2,
            "max_seq_len": 512,
            "attn_config": {"kv_n_heads": 2, "clip_qkv": 2.0, "rope_theta": 1e4},
            "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 6, "moe_top_k": 2},
        },
        peaked={"Wqkv": 4.0},
        hparams=True,
    ),
    "mimo2": Recipe(
        "MiMoV2FlashForCausalLM",
        {
            "n_routed_experts": 6,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 1,
            "head_dim": 24,
            "v_head_dim": 16,
            "layer_types": ["full_attention", *["sliding_attention"] * 2, "full_attention"],
            "sliding_window": 9,
            "rope_parameters": {
                "full_attention": {**THIRD, "rope_theta": 1e4},
                "sliding_attention": {**THIRD, "rope_theta": 5e3},
            },
        },
        edit=as_flash,
        convert={"no_mtp": True},
        hparams=True,
    ),
    "hy_v3": Recipe(
        "HYV3ForCausalLM",
        {**SIX, "num_shared_experts": 1, "router_scaling_factor": 1.5},
        peaked=NORMS,
        convert={"no_mtp": True},
    ),
    "mellum": Recipe(
        "MellumForCausalLM",
        {
            **SIX,
            "num_hidden_layers": 4,
            "layer_types": [*["sliding_attention"] * 3, "full_attention"],
            "sliding_window": 8,
            "norm_topk_prob": True,
            "rope_parameters": {
                "full_attention": {**YARN, "truncate": True},
                "sliding_attention": {"rope_type": "default", "rope_theta": 5e3},
            },
        },
        peaked=NORMS,
    ),
    "cohere2moe": Recipe(
        "Cohere2MoeForCausalLM",
        {
            "num_experts": 6,
            "num_experts_per_tok": 2,
            "intermediate_size": 32,
            "prefix_dense_intermediate_size": 64,
            "num_hidden_layers": 4,
            "first_k_dense_replace": 1,
            "layer_types": ["full_attention", *["sliding_attention"] * 2, "full_attention"],
            "sliding_window": 8,
            "num_shared_experts": 1,
            "shared_expert_combination_strategy": "average",
            "expert_selection_fn": "sigmoid",
            "norm_topk_prob": True,
            "prefix_dense_sliding_window_pattern": 1,
            "logit_scale": 0.25,
            "tie_word_embeddings": True,
        },
        convert={"no_mtp": True},
    ),
    "granite_swa": Recipe(
        "GraniteMoeSWAForCausalLM",
        {
            "num_local_experts": 6,
            "num_experts_per_tok": 2,
            "intermediate_size": 32,
            "shared_intermediate_size": 32,
            "hidden_size": 64,
            "sliding_window": 8,
            "layer_rope_theta": [0, 1e4, 1e4],
            "embedding_multiplier": 1.5,
            "residual_multiplier": 0.75,
            "attention_multiplier": 0.375,
            "logits_scaling": 2.5,
        },
        edit=lambda config: {**config, "no_rope_layers": [0, 1, 1]},
    ),
}
