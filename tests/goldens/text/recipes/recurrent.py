"""Layers that carry a state from token to token, with attention between them or without."""

from tests.goldens.text.recipe import ABSENT, Config, Recipe

SLOW = {"dt_bias": -3.0}
"""Decays so small that a state still knows what was a chunk ago."""
MAMBA2 = {"num_heads": 8, "head_dim": 8, "n_groups": 2, "state_size": 16, "chunk_size": 64}
DELTA = {
    "num_hidden_layers": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 1e4,
        "partial_rotary_factor": 0.5,
        "mrope_section": [2, 1, 1],
        "mrope_interleaved": True,
    },
}
FALCON = {
    "mamba_d_ssm": 64,
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_n_groups": 2,
    "mamba_d_state": 16,
    "mamba_chunk_size": 64,
    "mlp_multipliers": [0.75, 1.25],
    "ssm_multipliers": [0.5, 1.5, 0.75, 1.25, 0.875],
    "key_multiplier": 0.75,
    "attention_in_multiplier": 1.25,
    "attention_out_multiplier": 0.75,
    "ssm_in_multiplier": 1.25,
    "ssm_out_multiplier": 0.75,
    "embedding_multiplier": 1.5,
    "lm_head_multiplier": 0.5,
}
NEMOTRON = {
    "num_hidden_layers": ABSENT,
    "layers_block_type": ["linear_attention", "mlp", "full_attention", "mlp", "linear_attention"],
    "mamba_num_heads": 8,
    "mamba_head_dim": 8,
    "ssm_state_size": 16,
    "n_groups": 2,
    "chunk_size": 64,
}


EXPERTS = {
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "norm_topk_prob": True,
}
SHARED = {"shared_expert_intermediate_size": 64}
NEMOTRON_EXPERTS = {
    "layers_block_type": ["linear_attention", "moe", "full_attention", "moe"],
    "n_routed_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "moe_shared_expert_intermediate_size": 64,
    "routed_scaling_factor": 1.5,
}


GRANITE = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "layer_types": ["linear_attention", "full_attention"],
    "num_local_experts": 6,
    "num_experts_per_tok": 2,
    "intermediate_size": 32,
    "shared_intermediate_size": 32,
    "mamba_n_heads": 8,
    "mamba_n_groups": 2,
    "mamba_d_state": 16,
    "mamba_chunk_size": 64,
    "embedding_multiplier": 1.5,
    "residual_multiplier": 0.75,
    "attention_multiplier": 0.375,
    "logits_scaling": 2.5,
}


def with_old_names(config: Config) -> Config:
    """Kinds of layers as the converter knows them."""
    kinds = {"full_attention": "attention", "linear_attention": "mamba"}
    return {**config, "layer_types": [kinds[kind] for kind in config["layer_types"]]}


def dense(config: Config) -> Config:
    """A Nemotron without experts, as the converter knows one."""
    del config["num_experts_per_tok"], config["layers_block_type"]
    return {**config, "num_hidden_layers": 5, "hybrid_override_pattern": "M-*-M"}


def with_depth(config: Config) -> Config:
    """As the converter asks for it."""
    return {**config, "num_hidden_layers": len(config["layers_block_type"])}


RECIPES = {
    "lfm2": Recipe(
        "Lfm2ForCausalLM",
        {
            "layer_types": ["conv", "full_attention", "conv"],
            "block_auto_adjust_ff_dim": False,
            "head_dim": ABSENT,
        },
        peaked={"q_layernorm": 2.0, "k_layernorm": 2.0},
    ),
    "qwen35": Recipe(
        "Qwen3_5ForCausalLM",
        DELTA,
        peaked={"q_norm": 8.0, "k_norm": 8.0, **SLOW},
        convert={"no_mtp": True},
    ),
    "mamba2": Recipe("Mamba2ForCausalLM", MAMBA2, peaked={}),
    "mamba": Recipe("MambaForCausalLM", {"state_size": 16, "time_step_rank": 2}, peaked={}),
    "falcon_h1": Recipe("FalconH1ForCausalLM", FALCON),
    "nemotron_h": Recipe(
        "NemotronHForCausalLM",
        NEMOTRON,
        peaked={"q_proj": 3.0, "k_proj": 3.0, "dt_bias": 2.0},
        edit=dense,
        hparams=True,
    ),
    "lfm2moe": Recipe(
        "Lfm2MoeForCausalLM",
        {
            **EXPERTS,
            "layer_types": ["conv", "full_attention", "conv"],
            "num_dense_layers": 1,
            "head_dim": ABSENT,
            "tie_word_embeddings": True,
        },
        peaked={"q_layernorm": 2.0, "k_layernorm": 2.0},
    ),
    "qwen35moe": Recipe(
        "Qwen3_5MoeForCausalLM",
        {**DELTA, **EXPERTS, **SHARED},
        peaked={"q_norm": 8.0, "k_norm": 8.0, **SLOW},
        convert={"no_mtp": True},
    ),
    "qwen3next": Recipe(
        "Qwen3NextForCausalLM",
        {**DELTA, **EXPERTS, **SHARED},
        peaked={"q_norm": 8.0, "k_norm": 8.0, **SLOW},
        convert={"no_mtp": True},
    ),
    "nemotron_h_moe": Recipe(
        "NemotronHForCausalLM",
        {**NEMOTRON, **NEMOTRON_EXPERTS},
        peaked={"q_proj": 3.0, "k_proj": 3.0, "dt_bias": 2.0},
        edit=with_depth,
        hparams=True,
    ),
    "nemotron_h_latent": Recipe(
        "NemotronHForCausalLM",
        {**NEMOTRON, **NEMOTRON_EXPERTS, "moe_latent_size": 16},
        peaked={"q_proj": 3.0, "k_proj": 3.0, "dt_bias": 2.0},
        edit=with_depth,
        hparams=True,
    ),
    "granitehybrid": Recipe(
        "GraniteMoeHybridForCausalLM", GRANITE, edit=with_old_names, hparams=True
    ),
    "jamba": Recipe(
        "JambaForCausalLM",
        {
            "head_dim": ABSENT,
            "num_hidden_layers": 4,
            "attn_layer_period": 4,
            "attn_layer_offset": 2,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "num_experts": 6,
            "num_experts_per_tok": 2,
            "intermediate_size": 32,
            "mamba_dt_rank": 4,
        },
        peaked={"q_proj": 6.0, "k_proj": 6.0},
    ),
}
