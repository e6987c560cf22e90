"""Gemma 3n and 4."""

from tests.goldens.text.recipe import Recipe, V

VOCABULARY = {
    "tokenizer.json": {"model": {"vocab": {str(i): i for i in range(V)}}, "added_tokens": []}
}
S, F = "sliding_attention", "full_attention"
PARTLY = {
    S: {"rope_type": "default", "rope_theta": 1e4},
    F: {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
}
GEMMA4 = {
    "sliding_window": 8,
    "rope_parameters": PARTLY,
    "global_head_dim": 32,
    "final_logit_softcapping": 30.0,
    "tie_word_embeddings": True,
    "pad_token_id": 0,
}

RECIPES = {
    "gemma4": Recipe(
        "Gemma4ForCausalLM",
        {
            **GEMMA4,
            "num_hidden_layers": 6,
            "layer_types": [S, S, F, S, S, F],
            "num_global_key_value_heads": 1,
            "attention_k_eq_v": False,
            "num_kv_shared_layers": 2,
            "hidden_size_per_layer_input": 8,
            "vocab_size_per_layer_input": V,
            "use_double_wide_mlp": True,
        },
        peaked={},
        beside=VOCABULARY,
    ),
    "gemma4-moe": Recipe(
        "Gemma4ForCausalLM",
        {
            **GEMMA4,
            "num_hidden_layers": 4,
            "layer_types": [S, F, S, F],
            "num_global_key_value_heads": 1,
            "attention_k_eq_v": True,
            "hidden_size_per_layer_input": 0,
            "enable_moe_block": True,
            "num_experts": 6,
            "top_k_experts": 2,
            "moe_intermediate_size": 64,
        },
        peaked={},
        beside=VOCABULARY,
    ),
    "gemma3n": Recipe(
        "Gemma3nForCausalLM",
        {
            "num_hidden_layers": 5,
            "layer_types": [S, F, S, S, F],
            "sliding_window": 8,
            "rope_parameters": {
                S: {"rope_type": "default", "rope_theta": 1e4},
                F: {"rope_type": "default", "rope_theta": 1e6},
            },
            "num_kv_shared_layers": 2,
            "hidden_size_per_layer_input": 8,
            "vocab_size_per_layer_input": V,
            "laurel_rank": 8,
            "activation_sparsity_pattern": [0.95, 0.95, 0.0, 0.0, 0.0],
            "altup_num_inputs": 4,
            "final_logit_softcapping": 30.0,
            "tie_word_embeddings": True,
            "pad_token_id": 0,
        },
        peaked={},
        beside=VOCABULARY,
    ),
}
