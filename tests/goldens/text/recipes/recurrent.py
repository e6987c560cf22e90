"""Layers that carry a state from token to token, with attention between them or without."""

from tests.goldens.text.recipe import Recipe

RECIPES = {
    "lfm2": Recipe(
        "Lfm2ForCausalLM",
        {
            "layer_types": ["conv", "full_attention", "conv"],
            "block_auto_adjust_ff_dim": False,
            "head_dim": None,
        },
        peaked={"q_layernorm": 2.0, "k_layernorm": 2.0},
    ),
}
