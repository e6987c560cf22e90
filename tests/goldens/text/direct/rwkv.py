"""States in place of attention, and mixes of neighbouring tokens."""

from tests.goldens.text.direct import Direct, Key, Shape
from tests.goldens.text.recipe import V

Tensors = dict[str, Shape]

E, F, SIZE, LAYERS = 128, 64, 64, 2
"""llama.cpp reads heads by 64 channels."""
RANKS = {"w": 16, "a": 10, "v": 6, "g": 16}
"""Those that pass an activation are whole vectors, as in published files."""


def low_rank(parts: str, bare: str) -> Tensors:
    """Of a time mix: two matrices each, and what is added to all but `bare`."""
    made: Tensors = {}
    for part in parts:
        made |= {f"time_mix_{part}1.weight": (E, RANKS[part])}
        made |= {f"time_mix_{part}2.weight": (RANKS[part], E)}
        if part not in bare:
            made[f"time_mix_{part}0.weight"] = (E,)
    return made


def seventh(gated: bool, normed: bool) -> Tensors:
    """RWKV-7's time mix."""
    made = low_rank("wavg" if gated else "wav", "g")
    names = ("receptance", "key", "value", "output")
    made |= {f"time_mix_{name}.weight": (E, E) for name in names}
    made |= {f"time_mix_{name}.weight": (E,) for name in ("k_k", "k_a", "r_k")}
    made["time_mix_lerp_fused.weight"] = (E, 1, 1, 6 if gated else 5)
    if normed:
        made |= {"time_mix_ln.weight": (E,), "time_mix_ln.bias": (E,)}
    return made


def sixth(first: bool, heads_kv: int, joined: bool = True) -> Tensors:
    """RWKV-6's time mix."""
    mixes, decays, keys = 6, 14, heads_kv * SIZE
    made: Tensors = {f"time_mix_{name}.weight": (E, E) for name in ["receptance", "output", "gate"]}
    made |= {f"time_mix_{name}.weight": (E, keys) for name in ("key", "value")}
    made |= {"time_mix_w1.weight": (E, 5 * mixes), "time_mix_w2.weight": (mixes, E, 5)}
    made |= {"time_mix_decay_w1.weight": (E, decays), "time_mix_decay_w2.weight": (decays, E)}
    made |= {"time_mix_decay.weight": (E,), "time_mix_lerp_x.weight": (E, 1, 1)}
    if joined:
        made["time_mix_lerp_fused.weight"] = (E, 1, 1, 5)
    else:
        made |= {f"time_mix_lerp_{part}.weight": (E, 1, 1) for part in "wkvrg"}
    if first:
        made["time_mix_first.weight"] = (SIZE, E // SIZE)
        made |= {"time_mix_ln.weight": (E,), "time_mix_ln.bias": (E,)}
    else:
        made |= {"time_mix_key.bias": (keys,), "time_mix_value.bias": (keys,)}
        made["time_mix_receptance.bias"] = (E,)
    return made


EXTRA: dict[str, Key] = {"time_mix_extra_dim": 6, "time_decay_extra_dim": 14}

CHANNELS: Tensors = {
    "channel_mix_lerp_k.weight": (E, 1, 1),
    "channel_mix_key.weight": (E, F),
    "channel_mix_value.weight": (F, E),
    **{f"attn_norm{n}.{kind}": (E,) for n in ("", "_2") for kind in ("weight", "bias")},
}

GATED: Tensors = {
    "channel_mix_lerp_r.weight": (E, 1, 1),
    "channel_mix_receptance.weight": (E, E),
}

AROUND: Tensors = {
    "token_embd.weight": (E, V),
    "output.weight": (E, V),
    **{f"{n}_norm.{kind}": (E,) for n in ("token_embd", "output") for kind in ("weight", "bias")},
}


UNUSED: Tensors = {
    "blk.0.time_mix_v1.weight": (E, RANKS["a"]),
    "blk.0.time_mix_v2.weight": (RANKS["a"], E),
}
"""As large as llama.cpp wants them, though the first layer mixes no values."""


def layers(around: Tensors, block: Tensors, unused: Tensors = UNUSED) -> Tensors:
    """The same block in every layer."""
    blocks = {f"blk.{i}.{name}": shape for i in range(LAYERS) for name, shape in block.items()}
    return {**around, **blocks, **unused}


def keys(norm: str, **others: Key) -> dict[str, Key]:
    """Of a model without heads of attention; "__" stands for a dot."""
    made: dict[str, Key] = {
        "block_count": LAYERS,
        "context_length": 512,
        "embedding_length": E,
        "feed_forward_length": F,
        "attention.head_count": 0,
        f"attention.{norm}": 1e-5,
        "wkv.head_size": SIZE,
    }
    return made | {name.replace("__", "."): value for name, value in others.items()}


LORA: dict[str, Key] = {
    "attention__decay_lora_rank": RANKS["w"],
    "attention__iclr_lora_rank": RANKS["a"],
    "attention__value_residual_mix_lora_rank": RANKS["v"],
    "attention__gate_lora_rank": RANKS["g"],
}

FEED: Tensors = {
    "ffn_gate.weight": (E, F),
    "ffn_up.weight": (E, F),
    "ffn_down.weight": (F, E),
    "attn_norm.weight": (E,),
    "ffn_norm.weight": (E,),
}

PLAIN: Tensors = {
    "token_embd.weight": (E, V),
    "output.weight": (E, V),
    "output_norm.weight": (E,),
}

PEAKED = {"time_mix_k_k": 3.0, "mix_lerp": 8.0}

RECIPES = {
    "arwkv7": Direct(
        "arwkv7",
        keys("layer_norm_rms_epsilon", token_shift_count=1, **LORA),
        layers(PLAIN, {**seventh(False, False), **FEED}),
        peaked=PEAKED,
    ),
    "rwkv7": Direct(
        "rwkv7",
        keys("layer_norm_epsilon", **LORA),
        layers(AROUND, {**seventh(True, True), **CHANNELS}),
        peaked=PEAKED,
    ),
    "rwkv6": Direct(
        "rwkv6",
        keys("layer_norm_epsilon", rescale_every_n_layers=1, **EXTRA),
        layers(AROUND, {**sixth(True, E // SIZE), **CHANNELS, **GATED}, {}),
        peaked=PEAKED,
    ),
    "rwkv6-split": Direct(
        "rwkv6",
        keys("layer_norm_epsilon", **EXTRA),
        layers(AROUND, {**sixth(True, E // SIZE, False), **CHANNELS, **GATED}, {}),
        peaked=PEAKED,
    ),
    "rwkv6qwen2": Direct(
        "rwkv6qwen2",
        keys("layer_norm_rms_epsilon", token_shift_count=1, attention__head_count_kv=1, **EXTRA),
        layers(PLAIN, {**sixth(False, 1), **FEED}, {}),
        peaked=PEAKED,
    ),
}
