"""Attention and a feed-forward in every layer."""

from tests.goldens.text.recipe import NORMS, Recipe

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}

RECIPES = {
    "llama": Recipe("LlamaForCausalLM", {"attention_bias": True, "rope_parameters": LLAMA3}),
    "qwen2": Recipe("Qwen2ForCausalLM", {"hidden_size": 64, "head_dim": None}),
    "qwen3": Recipe("Qwen3ForCausalLM", peaked=NORMS),
}
