"""Latent attention, with experts in groups behind a dense layer."""

from tests.goldens.text.recipe import ABSENT, Config, Recipe

MLA = {
    "num_key_value_heads": 4,
    "head_dim": ABSENT,
    "kv_lora_rank": 16,
    "q_lora_rank": None,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "rms_norm_eps": 1e-6,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 32,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "n_group": 4,
    "topk_group": 2,
    "routed_scaling_factor": 1.5,
}
LOW_RANK = {**MLA, "q_lora_rank": 20, "norm_topk_prob": True}
YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "beta_fast": 32,
    "beta_slow": 1,
    "original_max_position_embeddings": 32,
    "rope_theta": 10000.0,
}
EXPANDED = {
    "hidden_size": 48,
    "num_key_value_heads": 4,
    "head_dim": ABSENT,
    "kv_lora_rank": 16,
    "q_lora_rank": 20,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "rope_parameters": {
        "rope_type": "longrope",
        "rope_theta": 1e4,
        "short_factor": [1.0, 1.25, 1.5, 2.0],
        "long_factor": [1.0, 2.0, 4.0, 8.0],
        "factor": 1.0,
        "original_max_position_embeddings": 512,
    },
}
INDEX = {"index_topk": 128, "index_n_heads": 2, "index_head_dim": 16}
"""Longer than the texts: all tokens are looked at."""
WHOLE = {"q_proj": 6.0, "kv_a_proj": 3.0, "kv_b_proj": 2.0}
PARTS = {"q_b_proj": 6.0, "kv_a_proj": 3.0, "kv_b_proj": 2.0}


def by_sigmoids(config: Config) -> Config:
    """As the published config.json has it, and the class does not write it."""
    return {**config, "scoring_func": "sigmoid"}


def as_mistral4(config: Config) -> Config:
    """With the architecture that the converter knows."""
    return {**config, "architectures": ["Mistral3ForConditionalGeneration"]}


def as_kimi(config: Config) -> Config:
    """As published: layers counted from 1, and other names."""
    linear = {"full_attn_layers": [2], "short_conv_kernel_size": 4, "head_dim": 8, "num_heads": 4}
    renamed = {
        "num_experts": 8,
        "num_experts_per_token": 3,
        "num_shared_experts": 1,
        "first_k_dense_replace": 1,
        "moe_router_activation_func": "sigmoid",
    }
    return {**config, **renamed, "linear_attn_config": linear}


RECIPES = {
    "deepseek_v2": Recipe(
        "DeepseekV2ForCausalLM",
        {**MLA, "topk_method": "group_limited_greedy"},
        peaked=WHOLE,
    ),
    "deepseek_v3": Recipe(
        "DeepseekV3ForCausalLM",
        {**LOW_RANK, "rope_parameters": YARN},
        peaked=PARTS,
        edit=by_sigmoids,
        convert={"no_mtp": True},
    ),
    "minicpm3": Recipe("MiniCPM3ForCausalLM", EXPANDED, peaked={"embed": 0.125, **PARTS}),
    "glm4_moe_lite": Recipe(
        "Glm4MoeLiteForCausalLM",
        {**LOW_RANK, "n_group": 1, "topk_group": 1},
        peaked=PARTS,
        convert={"no_mtp": True},
    ),
    "mistral4": Recipe(
        "Mistral4ForCausalLM",
        {
            **LOW_RANK,
            "first_k_dense_replace": 0,
            "n_group": 1,
            "topk_group": 1,
            "rope_parameters": {**YARN, "llama_4_scaling_beta": 0.1},
        },
        peaked=PARTS,
        edit=as_mistral4,
    ),
    "deepseek32": Recipe(
        "DeepseekV32ForCausalLM",
        {**LOW_RANK, **INDEX, "rope_parameters": YARN},
        peaked=PARTS,
        edit=by_sigmoids,
        convert={"no_mtp": True},
    ),
    "glm-dsa": Recipe(
        "GlmMoeDsaForCausalLM",
        {**LOW_RANK, **INDEX, "n_group": 1, "topk_group": 1},
        peaked=PARTS,
        convert={"no_mtp": True},
    ),
    "kimi-linear": Recipe(
        "KimiLinearForCausalLM",
        {
            **MLA,
            "n_routed_experts": ABSENT,
            "num_experts": 8,
            "layer_types": ["linear_attention", "full_attention", "linear_attention"],
            "n_group": 1,
            "topk_group": 1,
            "linear_head_dim": 8,
            "linear_num_heads": 4,
            "linear_conv_kernel_dim": 4,
        },
        peaked=WHOLE,
        edit=as_kimi,
        renamed={
            f"block_sparse_moe.{name}_proj": f"mlp.{name}_proj" for name in ("gate", "up", "down")
        },
        hparams=True,
    ),
}
