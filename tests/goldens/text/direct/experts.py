"""Experts in place of a feed-forward."""

from collections.abc import Callable

from tests.goldens.text.direct import PEAKED, Direct, Key, Shape
from tests.goldens.text.recipe import V

EMBD, HEADS, KV, DIM = 64, 4, 2, 16
FEED, EXPERT, EXPERTS = 64, 32, 8
Tensors = dict[str, Shape]

COMMON: dict[str, Key] = {
    "context_length": 512,
    "embedding_length": EMBD,
    "feed_forward_length": FEED,
    "attention.head_count": HEADS,
    "attention.head_count_kv": KV,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "rope.freq_base": 1e4,
    "rope.dimension_count": DIM,
    "expert_count": EXPERTS,
    "expert_used_count": 2,
    "expert_feed_forward_length": EXPERT,
}
NORMS: Tensors = {"attn_norm.weight": (EMBD,), "ffn_norm.weight": (EMBD,)}
SPLIT: Tensors = {
    "attn_q.weight": (EMBD, HEADS * DIM),
    "attn_k.weight": (EMBD, KV * DIM),
    "attn_v.weight": (EMBD, KV * DIM),
    "attn_output.weight": (HEADS * DIM, EMBD),
}
FUSED: Tensors = {
    "attn_qkv.weight": (EMBD, (HEADS + 2 * KV) * DIM),
    "attn_output.weight": (HEADS * DIM, EMBD),
    "attn_q_norm.weight": (DIM,),
    "attn_k_norm.weight": (DIM,),
}
DENSE: Tensors = {
    "ffn_gate.weight": (EMBD, FEED),
    "ffn_up.weight": (EMBD, FEED),
    "ffn_down.weight": (FEED, EMBD),
}


def routed(shared: int) -> Tensors:
    """Experts, and one of `shared` times their width that all tokens pass, if any."""
    wide = shared * EXPERT
    common = {
        "ffn_gate_shexp.weight": (EMBD, wide),
        "ffn_up_shexp.weight": (EMBD, wide),
        "ffn_down_shexp.weight": (wide, EMBD),
    }
    return {
        "ffn_gate_inp.weight": (EMBD, EXPERTS),
        "ffn_gate_exps.weight": (EMBD, EXPERT, EXPERTS),
        "ffn_up_exps.weight": (EMBD, EXPERT, EXPERTS),
        "ffn_down_exps.weight": (EXPERT, EMBD, EXPERTS),
        **(common if shared else {}),
    }


def whole(layers: int, block: Callable[[int], Tensors]) -> Tensors:
    """With the tensors around the blocks; `block` gives those of a layer."""
    blocks = {f"blk.{i}.{name}": s for i in range(layers) for name, s in block(i).items()}
    around = {
        "token_embd.weight": (EMBD, V),
        "output_norm.weight": (EMBD,),
        "output.weight": (EMBD, V),
    }
    return around | blocks


def joint(i: int) -> Tensors:
    """A layer with one matrix for queries, keys and shorter values; the second has sinks."""
    kv = (1, 2)[i]
    made: Tensors = {
        "attn_qkv.weight": (EMBD, HEADS * 24 + kv * (24 + DIM)),
        "attn_output.weight": (HEADS * DIM, EMBD),
        **NORMS,
        **(routed(0) if i else DENSE),
    }
    return made | ({"attn_sinks.weight": (HEADS,), "exp_probs_b.bias": (EXPERTS,)} if i else {})


def stepped(i: int) -> Tensors:
    """A layer with gated heads, six in the windowed one; the first is dense."""
    heads, kv = ((HEADS, 1), (6, KV), (HEADS, 1))[i]
    made: Tensors = {
        "attn_q.weight": (EMBD, heads * DIM),
        "attn_k.weight": (EMBD, kv * DIM),
        "attn_v.weight": (EMBD, kv * DIM),
        "attn_output.weight": (heads * DIM, EMBD),
        "attn_gate.weight": (EMBD, heads),
        "attn_q_norm.weight": (DIM,),
        "attn_k_norm.weight": (DIM,),
        **NORMS,
        **(routed(1) if i else DENSE),
    }
    return made | ({"exp_probs_b.bias": (EXPERTS,)} if i else {})


def indexed(i: int) -> Tensors:
    """A layer with an index of blocks; the first is dense and has none."""
    made: Tensors = {**SPLIT, "attn_q_norm.weight": (DIM,), "attn_k_norm.weight": (DIM,), **NORMS}
    if not i:
        return {**made, **DENSE}
    return {
        **made,
        **routed(1),
        "exp_probs_b.bias": (EXPERTS,),
        "indexer.q_proj.weight": (EMBD, KV * DIM),
        "indexer.k_proj.weight": (EMBD, DIM),
        "indexer.q_norm.weight": (DIM,),
        "indexer.k_norm.weight": (DIM,),
    }


# Feed-forwards beside experts are as wide as the embedding.
RESIDUAL: Tensors = {f"ffn_{part}.weight": (EMBD, EMBD) for part in ("gate", "up", "down")}

ADJUGATE: Tensors = {
    "ffn_gate_chexps.weight": (EMBD, 16, EXPERTS // 2),
    "ffn_up_chexps.weight": (EMBD, 16, EXPERTS // 2),
    "ffn_down_chexps.weight": (16, EMBD, EXPERTS // 2),
}
CAPPED: Tensors = {
    **NORMS,
    **SPLIT,
    **routed(0),
    "attn_output_norm.weight": (EMBD,),
}
# llama.cpp's GELU is a table of halves: feed-forwards are a small part of the result.
FAINT_NORM = 1 / 64

RECIPES = {
    "grok": Direct(
        "grok",
        {
            **COMMON,
            "block_count": 2,
            "embedding_scale": 1.5,
            "logit_scale": 0.75,
            "attention.output_scale": 0.25,
            "attn_logit_softcapping": 4.0,
            "router_logit_softcapping": 30.0,
            "final_logit_softcapping": 20.0,
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 8.0,
            "rope.scaling.original_context_length": 512,
            "rope.scaling.yarn_ext_factor": 1.0,
            "rope.scaling.yarn_attn_factor": 1.0,
            "rope.scaling.yarn_beta_fast": 8.0,
            "rope.scaling.yarn_beta_slow": 1.0,
        },
        whole(2, lambda i: CAPPED | DENSE | {"post_ffw_norm.weight": (EMBD,)}),
        peaked={**PEAKED, "post_ffw_norm": FAINT_NORM},
    ),
    "grok-1": Direct(
        "grok",
        {**COMMON, "block_count": 2, "feed_forward_length": EXPERT},
        whole(2, lambda i: CAPPED | {"layer_output_norm.weight": (EMBD,)}),
        peaked={**PEAKED, "layer_output_norm": FAINT_NORM, "token_embd": 1 / 16},
    ),
    "grovemoe": Direct(
        "grovemoe",
        {
            **COMMON,
            "block_count": 2,
            "expert_used_count": 3,
            "expert_chunk_feed_forward_length": 16,
            "experts_per_group": 2,
            "expert_group_scale": 0.75,
            "attention.key_length": DIM,
            "attention.value_length": DIM,
        },
        whole(2, lambda i: NORMS | FUSED | routed(0) | ADJUGATE),
        # The third and fourth best expert of a token are no near tie, which rounding would turn.
        peaked={"attn_q_norm": 2.0, "attn_k_norm": 2.0, "exps": 4.0},
        seed=2,
    ),
    "arctic": Direct(
        "arctic",
        {**COMMON, "block_count": 3, "feed_forward_length": EXPERT},
        whole(
            3, lambda i: NORMS | SPLIT | RESIDUAL | routed(0) | {"ffn_norm_exps.weight": (EMBD,)}
        ),
    ),
    "deepseek": Direct(
        "deepseek",
        {
            **COMMON,
            "block_count": 2,
            "leading_dense_block_count": 1,
            "expert_shared_count": 2,
            "expert_weights_scale": 1.0,
            "rope.scaling.type": "none",
        },
        whole(2, lambda i: NORMS | SPLIT | (routed(2) if i else DENSE)),
    ),
    "bailingmoe": Direct(
        "bailingmoe",
        {
            **COMMON,
            "block_count": 2,
            "expert_shared_count": 2,
            "expert_weights_scale": 1.0,
            "expert_weights_norm": True,
        },
        whole(2, lambda i: NORMS | SPLIT | routed(2)),
    ),
    "bailingmoe2": Direct(
        "bailingmoe2",
        {
            **COMMON,
            "block_count": 3,
            "leading_dense_block_count": 1,
            "rope.dimension_count": DIM // 2,
            "expert_shared_count": 1,
            "expert_shared_feed_forward_length": EXPERT,
            "expert_weights_scale": 2.5,
            "expert_weights_norm": True,
            "expert_gating_func": 2,
            "expert_group_count": 4,
            "expert_group_used_count": 2,
        },
        whole(
            3,
            lambda i: (
                NORMS | FUSED | (routed(1) | {"exp_probs_b.bias": (EXPERTS,)} if i else DENSE)
            ),
        ),
        peaked={"attn_q_norm": 2.0, "attn_k_norm": 2.0},
    ),
    "smallthinker": Direct(
        "smallthinker",
        {
            **COMMON,
            "block_count": 2,
            "expert_gating_func": 2,
            "attention.sliding_window": 4096,
        },
        whole(2, lambda i: NORMS | SPLIT | routed(0)),
    ),
    "mimo2-joint": Direct(
        "mimo2",
        {
            **COMMON,
            "block_count": 2,
            "attention.head_count_kv": [1, 2],
            "attention.key_length": 24,
            "attention.value_length": DIM,
            "attention.value_scale": 0.75,
            "attention.sliding_window": 4096,
            "attention.sliding_window_pattern": [0, 1],
            "rope.dimension_count": 8,
            "rope.freq_base_swa": 5e3,
        },
        whole(2, joint),
        peaked={"attn_qkv": 2.0},
    ),
    "step35": Direct(
        "step35",
        {
            **COMMON,
            "block_count": 3,
            "attention.head_count": [HEADS, 6, HEADS],
            "attention.head_count_kv": [1, KV, 1],
            "attention.key_length": DIM,
            "attention.value_length": DIM,
            "attention.sliding_window": 8,
            "attention.sliding_window_pattern": [False, True, False],
            "rope.freq_base_swa": 5e3,
            "expert_shared_feed_forward_length": EXPERT,
            "expert_weights_norm": True,
            "expert_weights_scale": 1.5,
            "expert_gating_func": 2,
            "swiglu_clamp_exp": [0.0, 0.0, 0.5],
            "swiglu_clamp_shexp": [0.0, 0.0, 0.75],
        },
        {**whole(3, stepped), "rope_freqs.weight": (DIM // 2,)},
        peaked={"attn_q_norm": 2.0, "attn_k_norm": 2.0},
        values={"rope_freqs.weight": (1.0, 1.5, 2.5, 4.0, 8.0, 8.0, 8.0, 8.0)},
    ),
    "minimax-m3": Direct(
        "minimax-m3",
        {
            **COMMON,
            "block_count": 2,
            "rope.dimension_count": 8,
            "leading_dense_block_count": 1,
            "expert_shared_count": 1,
            "expert_weights_norm": True,
            "expert_weights_scale": 1.5,
            "expert_gating_func": 2,
            "attention.key_length": DIM,
            "attention.value_length": DIM,
            "attention.indexer.head_count": KV,
            "attention.indexer.key_length": DIM,
            "attention.indexer.top_k": 8,
            "attention.indexer.block_size": 16,
            "attention.indexer.local_blocks": 1,
        },
        whole(2, indexed),
        peaked={"attn_q_norm": 2.0, "attn_k_norm": 2.0, "ffn_gate": 12.0, "ffn_up": 12.0},
    ),
}
