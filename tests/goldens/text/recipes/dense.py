"""Attention and a feed-forward in every layer."""

from tests.goldens.text.recipe import ABSENT, NORMS, Config, Recipe

NO_HEAD_DIM = {"hidden_size": 64, "head_dim": ABSENT}
"""Where heads are as wide as the embedding divided by their number."""
WINDOWED = {"num_hidden_layers": 4, "sliding_window": 8}
HALF = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 4.0,
    "original_max_position_embeddings": 32,
}
FULL_YARN = {
    "full_attention": YARN,
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}
MINISTRAL = {
    **YARN,
    "beta_fast": 1.0,
    "beta_slow": 0.25,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0, 1.25, 1.5, 2.0],
    "long_factor": [1.0, 2.0, 4.0, 8.0],
    "factor": 8.0,
    "original_max_position_embeddings": 64,
    "partial_rotary_factor": 0.5,
}
LLAMA4 = {
    "num_hidden_layers": 4,
    "attention_chunk_size": 8,
    "floor_scale": 16,
    "num_local_experts": 6,
    "num_experts_per_tok": 1,
    "interleave_moe_layer_step": 2,
    "intermediate_size_mlp": 96,
}
PEAKED_Q = {"q_proj": 6.0, "k_proj": 1.0}
PHI3 = {**NO_HEAD_DIM, "sliding_window": 8, "original_max_position_embeddings": 64}
PEAKED_QKV = {"qkv_proj": 2.0}
SECTIONS = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2]}
VISION = {"hidden_size": 32, "intermediate_size": 32, "depth": 1, "num_heads": 2}
ALPHA = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 1.0, "alpha": 50.0}
NEOX = {
    **NO_HEAD_DIM,
    "num_key_value_heads": ABSENT,
    "rope_parameters": {**HALF, "partial_rotary_factor": 0.25},
}
GENERAL = ["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"] + [
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
]
"""What GPT-2 has other names for."""
PEAKED_GPT = {"c_attn": 8.0, "query_key_value": 4.0}
GPT = {"n_embd": 64, "n_head": 4, "n_layer": 3, "n_positions": 128}
OLDER = dict.fromkeys(GENERAL, ABSENT)
BLOOM = {**OLDER, "hidden_size": 96, "n_layer": 3, "n_head": 6, "seq_length": 256}
MPT = {
    **OLDER,
    "d_model": 96,
    "n_heads": 6,
    "n_layers": 3,
    "max_seq_len": 256,
    "attn_config": {"clip_qkv": 2.0},
}
FALCON = {
    **NO_HEAD_DIM,
    "num_key_value_heads": ABSENT,
    "intermediate_size": ABSENT,
    "max_position_embeddings": 2048,
}
SIGLIP = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}
PICTURES = {"image_token_id": 0, "video_token_id": 1, "vision_start_token_id": 2}


def with_rotary_pct(config: Config) -> Config:
    """What the converter of Command R7B asks for."""
    return {**config, "rotary_pct": 1.0}


def with_context(config: Config) -> Config:
    """As the published config.json has it; the class calls it n_positions alone."""
    return {**config, "n_ctx": config["n_positions"]}


def with_one_head(config: Config) -> Config:
    """As the published config.json has it, and the class writes the number of all heads."""
    return {**config, "num_kv_heads": 1}


def with_quarter(config: Config) -> Config:
    """As the published config.json has it, and the class no longer writes it."""
    return {**config, "rotary_pct": 0.25}


def with_heads(config: Config) -> Config:
    """As the published config.json has it."""
    return {**config, "n_head": config["num_attention_heads"]} if "n_head" not in config else config


def as_mosaic(config: Config) -> Config:
    """As the published config.json names the class."""
    return {**config, "architectures": ["MPTForCausalLM"]}


RECIPES = {
    "llama": Recipe("LlamaForCausalLM", {"attention_bias": True, "rope_parameters": LLAMA3}),
    "llama-fused": Recipe("LlamaForCausalLM", convert={"fuse_qkv": True}),
    "qwen2": Recipe("Qwen2ForCausalLM", NO_HEAD_DIM),
    "qwen3": Recipe("Qwen3ForCausalLM", peaked=NORMS),
    "gemma": Recipe("GemmaForCausalLM", {"tie_word_embeddings": True}),
    "gemma2": Recipe(
        "Gemma2ForCausalLM",
        {
            **WINDOWED,
            "tie_word_embeddings": True,
            "query_pre_attn_scalar": 16,
            "attn_logit_softcapping": 8.0,
            "final_logit_softcapping": 3.0,
        },
    ),
    "phi3": Recipe("Phi3ForCausalLM", {**PHI3, "rope_parameters": LONGROPE}, peaked=PEAKED_QKV),
    "phi3-short": Recipe(
        "Phi3ForCausalLM",
        {
            **PHI3,
            "rope_parameters": {
                **LONGROPE,
                "factor": 2.0,
                "original_max_position_embeddings": 256,
            },
            "original_max_position_embeddings": 256,
        },
        peaked=PEAKED_QKV,
    ),
    "mistral3": Recipe("Ministral3ForCausalLM", {"rope_parameters": MINISTRAL}),
    "olmo2": Recipe("Olmo2ForCausalLM", NO_HEAD_DIM, peaked=NORMS),
    "olmo3": Recipe(
        "Olmo3ForCausalLM", {**NO_HEAD_DIM, **WINDOWED, "rope_parameters": FULL_YARN}, peaked=NORMS
    ),
    "smollm3": Recipe("SmolLM3ForCausalLM", {**NO_HEAD_DIM, "num_hidden_layers": 4}),
    "granite": Recipe(
        "GraniteForCausalLM",
        {
            **NO_HEAD_DIM,
            "embedding_multiplier": 3.0,
            "residual_multiplier": 0.4,
            "attention_multiplier": 0.375,
            "logits_scaling": 2.0,
        },
    ),
    "seed_oss": Recipe("SeedOssForCausalLM", {"attention_bias": True}),
    "exaone4": Recipe(
        "Exaone4ForCausalLM",
        {**NO_HEAD_DIM, **WINDOWED, "sliding_window_pattern": 4, "rope_parameters": LLAMA3},
        peaked=NORMS,
    ),
    "exaone4-full": Recipe(
        "Exaone4ForCausalLM",
        {**NO_HEAD_DIM, "sliding_window": None, "layer_types": ["full_attention"] * 3},
        peaked=NORMS,
    ),
    "glm4": Recipe("Glm4ForCausalLM", {"attention_bias": True, "rope_parameters": HALF}),
    "cohere2": Recipe(
        "Cohere2ForCausalLM",
        {**NO_HEAD_DIM, **WINDOWED, "logit_scale": 0.5, "tie_word_embeddings": True},
        edit=with_rotary_pct,
    ),
    "command-r": Recipe(
        "CohereForCausalLM",
        {**NO_HEAD_DIM, "logit_scale": 0.5, "tie_word_embeddings": True, "use_qk_norm": True},
        peaked=NORMS,
    ),
    "starcoder2": Recipe(
        "Starcoder2ForCausalLM", {**NO_HEAD_DIM, "sliding_window": None, "use_bias": True}
    ),
    "phi2": Recipe(
        "PhiForCausalLM",
        {
            **NO_HEAD_DIM,
            "intermediate_size": 256,
            "num_key_value_heads": 4,
            "rope_parameters": HALF,
        },
    ),
    "stablelm": Recipe(
        "StableLmForCausalLM", {**NO_HEAD_DIM, "use_qkv_bias": True, "rope_parameters": HALF}
    ),
    "stablelm-parallel": Recipe(
        "StableLmForCausalLM",
        {**NO_HEAD_DIM, "use_parallel_residual": True, "rope_parameters": HALF},
    ),
    "muse-glimmer": Recipe(
        "MuseGlimmerForConditionalGeneration",
        {**WINDOWED, "final_logit_softcapping": 2.0, "output_multiplier": 0.5},
        around={
            "vision_config": {
                "hidden_size": 32,
                "intermediate_size": 32,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
            },
            "out_hidden_size": 128,
            "projector_hidden_size": 32,
            "image_token_id": 0,
            "video_token_id": 1,
        },
    ),
    "llama4": Recipe("Llama4ForCausalLM", LLAMA4, peaked=PEAKED_Q),
    "llama4-scaled": Recipe(
        "Llama4ForCausalLM",
        {**LLAMA4, "num_experts_per_tok": 3, "rope_parameters": LLAMA3},
        peaked=PEAKED_Q,
    ),
    "arcee": Recipe("ArceeForCausalLM", {"rope_parameters": YARN}),
    "arcee-factors": Recipe(
        "ArceeForCausalLM",
        {
            "rope_parameters": LLAMA3,
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
        },
    ),
    "ernie4_5": Recipe("Ernie4_5ForCausalLM", {"use_bias": True, "tie_word_embeddings": True}),
    "gpt2": Recipe(
        "GPT2LMHeadModel",
        {
            **GPT,
            "tie_word_embeddings": True,
            **dict.fromkeys(GENERAL, ABSENT),
        },
        peaked=PEAKED_GPT,
        edit=with_context,
    ),
    "starcoder": Recipe(
        "GPTBigCodeForCausalLM",
        {**GPT, "tie_word_embeddings": True, **dict.fromkeys(GENERAL, ABSENT)},
        peaked={"c_attn": 3.0},
    ),
    "falcon": Recipe(
        "FalconForCausalLM",
        {**FALCON, "tie_word_embeddings": True},
        peaked=PEAKED_GPT,
        edit=with_one_head,
    ),
    "falcon-two": Recipe(
        "FalconForCausalLM",
        {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2},
        peaked=PEAKED_GPT,
    ),
    "bloom": Recipe(
        "BloomForCausalLM",
        {**BLOOM, "tie_word_embeddings": True},
        peaked=PEAKED_GPT,
        edit=with_heads,
    ),
    "mpt": Recipe("MptForCausalLM", MPT, peaked={"Wqkv": 6.0}, edit=as_mosaic),
    "chatglm": Recipe(
        "GlmForCausalLM",
        {"hidden_size": 64, "attention_bias": True, "rope_parameters": HALF},
    ),
    "olmo": Recipe(
        "OlmoForCausalLM",
        {**NO_HEAD_DIM, "clip_qkv": 3.0},
        peaked={"q_proj": 5.0, "k_proj": 5.0, "v_proj": 3.0},
    ),
    "apertus": Recipe(
        "ApertusForCausalLM", {**NO_HEAD_DIM, "rope_parameters": LLAMA3}, peaked=NORMS
    ),
    "gptneox": Recipe(
        "GPTNeoXForCausalLM", NEOX, peaked=PEAKED_GPT, edit=with_quarter, hparams=True
    ),
    "gptneox-serial": Recipe(
        "GPTNeoXForCausalLM",
        {**NEOX, "use_parallel_residual": False, "attention_bias": False},
        peaked=PEAKED_GPT,
        edit=with_quarter,
        hparams=True,
    ),
    "hunyuan-dense": Recipe(
        "HunYuanDenseV1ForCausalLM",
        {"rope_parameters": ALPHA, "max_position_embeddings": 32768, "tie_word_embeddings": True},
        peaked={"query_layernorm": 2.0, "key_layernorm": 2.0},
    ),
    "hunyuan_vl": Recipe(
        "HunYuanVLForConditionalGeneration",
        {
            "rope_parameters": {**ALPHA, "mrope_section": [2, 2, 2, 2]},
            "max_position_embeddings": 512,
        },
        peaked={"query_layernorm": 2.0, "key_layernorm": 2.0},
        around={"image_token_id": 0, "vision_config": {**SIGLIP, "max_image_size": 32}},
    ),
    "nemotron": Recipe("NemotronForCausalLM", {**NO_HEAD_DIM, "rope_parameters": HALF}),
    "nemotron-biases": Recipe(
        "NemotronForCausalLM",
        {
            **NO_HEAD_DIM,
            "attention_bias": True,
            "mlp_bias": True,
            "rope_parameters": {**HALF, "rope_type": "linear", "factor": 2.0},
        },
    ),
    "qwen2vl": Recipe(
        "Qwen2_5_VLForConditionalGeneration",
        {**NO_HEAD_DIM, "rope_parameters": SECTIONS},
        around={**PICTURES, "vision_config": {**VISION, "out_hidden_size": 64}},
    ),
    "paddleocr": Recipe(
        "PaddleOCRVLForConditionalGeneration",
        {"rope_parameters": SECTIONS},
        around={**PICTURES, "vision_config": SIGLIP},
    ),
    "qwen3vl": Recipe(
        "Qwen3VLForConditionalGeneration",
        {"rope_parameters": {**SECTIONS, "mrope_interleaved": True}},
        peaked=NORMS,
        around={
            **PICTURES,
            "vision_config": {**VISION, "out_hidden_size": 32, "deepstack_visual_indexes": [0]},
        },
    ),
    "gemma3": Recipe(
        "Gemma3ForCausalLM",
        {
            "num_hidden_layers": 7,
            "sliding_window": 8,
            "query_pre_attn_scalar": 16,
            "tie_word_embeddings": True,
            "final_logit_softcapping": 3.0,
        },
        peaked=NORMS,
    ),
}
