"""PLaMo 2 and 3: sandwich norms, whose names end without "weight"."""

from tests.goldens.text.direct import Direct, Key, Shape
from tests.goldens.text.recipe import V

Tensors = dict[str, Shape]

E, F, HEADS, KV, DIM = 64, 96, 4, 2, 16
MAMBA_HEADS, SIZE, KERNEL, RANK = 6, 64, 4, 64
"""The rank of steps is a 16th of the embedding, and 64 at least."""
INNER = MAMBA_HEADS * DIM

COMMON: dict[str, Key] = {
    "context_length": 512,
    "embedding_length": E,
    "feed_forward_length": F,
    "attention.key_length": DIM,
    "attention.value_length": DIM,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "rope.freq_base": 1e4,
}
BOTH: Tensors = {
    "attn_norm.weight": (E,),
    "post_attention_norm": (E,),
    "ffn_norm.weight": (E,),
    "ffn_up.weight": (E, 2 * F),
    "ffn_down.weight": (F, E),
    "post_ffw_norm": (E,),
}
ATTENTION: Tensors = {
    "attn_qkv.weight": (E, (HEADS + 2 * KV) * DIM),
    "attn_output.weight": (HEADS * DIM, E),
}
MAMBA: Tensors = {
    "ssm_in.weight": (E, 2 * INNER),
    "ssm_conv1d.weight": (KERNEL, INNER),
    "ssm_x.weight": (INNER, RANK + 2 * SIZE),
    "ssm_dt.weight": (RANK, MAMBA_HEADS),
    "ssm_dt.bias": (MAMBA_HEADS,),
    "ssm_a": (MAMBA_HEADS,),
    "ssm_d": (MAMBA_HEADS,),
    "ssm_out.weight": (INNER, E),
    "ssm_dt_norm": (RANK,),
    "ssm_b_norm": (SIZE,),
    "ssm_c_norm": (SIZE,),
}


def whole(*layers: Tensors) -> Tensors:
    """With the tensors around the blocks, the output tied."""
    made: Tensors = {"token_embd.weight": (E, V), "output_norm.weight": (E,)}
    for i, block in enumerate(layers):
        made |= {f"blk.{i}.{name}": shape for name, shape in {**BOTH, **block}.items()}
    return made


RECIPES = {
    # Published ones begin with Mamba; then llama.cpp takes no layer's heads to have channels.
    "plamo2": Direct(
        "plamo2",
        {
            **COMMON,
            "block_count": 3,
            "attention.head_count": [HEADS, 0, 0],
            "attention.head_count_kv": [KV, 0, 0],
            "ssm.state_size": SIZE,
            "ssm.conv_kernel": KERNEL,
            "ssm.time_step_rank": MAMBA_HEADS,
            "ssm.inner_size": INNER,
            "ssm.group_count": 0,
        },
        whole(
            ATTENTION | {"attn_q_norm.weight": (DIM, HEADS), "attn_k_norm.weight": (DIM, KV)},
            MAMBA,
            MAMBA,
        ),
        peaked={"attn_q_norm": 12.0, "attn_k_norm": 12.0, "ssm_conv1d": 2.0},
        values={f"blk.{i}.ssm_a": (-0.05, -0.2, -0.5, -1.0, -2.0, -4.0) for i in (1, 2)},
    ),
    "plamo3": Direct(
        "plamo3",
        {
            **COMMON,
            "block_count": 3,
            "attention.head_count": HEADS,
            "attention.head_count_kv": KV,
            "attention.sliding_window": 8,
            "attention.sliding_window_pattern": 3,
            "rope.freq_base_swa": 5e3,
        },
        whole(*[ATTENTION | {"attn_q_norm.weight": (DIM,), "attn_k_norm.weight": (DIM,)}] * 3),
        peaked={"attn_q_norm": 2.0, "attn_k_norm": 2.0},
    ),
}
