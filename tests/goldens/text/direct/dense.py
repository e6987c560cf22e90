"""Attention and a feed-forward in every layer."""

from tests.goldens.text.direct import Direct, Key, Shape
from tests.goldens.text.recipe import V

Tensors = dict[str, Shape]
Sizes = tuple[int, int, int, int]
"""Of embedding, feed-forward, queries, keys."""

WIDE, NARROW = (64, 96, 64, 32), (32, 32, 32, 32)
MANY, SQUARE = (96, 128, 96, 16), (64, 96, 64, 64)
DIM, LAYERS = 16, 3
NORMS = "attn_norm ffn_norm output_norm"
PROJECTIONS = "attn_q attn_k attn_v attn_output"


def keys(
    norm: str = "layer_norm_rms_epsilon", sizes: Sizes = WIDE, **others: Key
) -> dict[str, Key]:
    """Of a decoder; "__" stands for a dot."""
    e, f, q, k = sizes
    made: dict[str, Key] = {
        "block_count": LAYERS,
        "context_length": 512,
        "embedding_length": e,
        "feed_forward_length": f,
        "attention.head_count": q // DIM,
        "attention.head_count_kv": k // DIM,
        f"attention.{norm}": 1e-5,
        "rope.dimension_count": DIM,
    }
    return made | {name.replace("__", "."): value for name, value in others.items()}


def parts(sizes: Sizes) -> Tensors:
    """Of a block."""
    e, f, q, k = sizes
    attention = {"attn_q": (e, q), "attn_k": (e, k), "attn_v": (e, k), "attn_output": (q, e)}
    feed = {"ffn_gate": (e, f), "ffn_up": (e, f), "ffn_down": (f, e)}
    return {**attention, **feed, "attn_norm": (e,), "ffn_norm": (e,)}


def tensors(
    left_out: str = "",
    biases: str = "",
    tied: bool = False,
    layers: int = LAYERS,
    sizes: Sizes = WIDE,
) -> Tensors:
    """Of a decoder: without some parts, some with biases."""
    e = sizes[0]
    made: Tensors = {"token_embd.weight": (e, V), "output_norm.weight": (e,)}
    if not tied:
        made["output.weight"] = (e, V)
    if "output_norm" in biases.split():
        made["output_norm.bias"] = (e,)
    for i in range(layers):
        for name, shape in parts(sizes).items():
            if name not in left_out.split():
                made[f"blk.{i}.{name}.weight"] = shape
            if name in biases.split():
                made[f"blk.{i}.{name}.bias"] = shape[-1:]
    return made


FACTORS = (1.0, 1.0, 1.0, 1.5, 2.5, 4.0, 8.0, 8.0)

SUB_NORMS = {
    f"blk.{i}.{name}.weight": (size,)
    for i in range(LAYERS)
    for name, size in (("attn_sub_norm", WIDE[2]), ("ffn_sub_norm", WIDE[1]))
}

HEAD_NORMS = {
    f"blk.{i}.{name}.weight": (DIM,)
    for i in range(LAYERS)
    for name in ("attn_q_norm", "attn_k_norm")
}

NEO_BLOCK: Tensors = {
    "attn_norm.weight": (64,),
    "attn_qkv.weight": (64, 3 * 64),
    "attn_output.weight": (64, 64),
    "ffn_norm.weight": (64,),
    "ffn_up.weight": (64, 2 * 96),
    "ffn_down.weight": (96, 64),
}

NEO: Tensors = {
    "token_embd.weight": (64, V),
    "enc.output_norm.weight": (64,),
    **{f"blk.{i}.{name}": s for i in range(LAYERS) for name, s in NEO_BLOCK.items()},
}

BERT_BLOCK: Tensors = {
    f"{name}.{part}": shape if part == "weight" else shape[-1:]
    for name, shape in {
        **dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (64, 64)),
        "ffn_up": (64, 96),
        "ffn_down": (96, 64),
        **dict.fromkeys(("attn_output_norm", "layer_output_norm"), (64,)),
    }.items()
    for part in ("weight", "bias")
}

SPLIT = "attn_q attn_k attn_v"
FUSED: Tensors = {
    f"blk.{i}.attn_qkv.{part}": shape
    for i in range(LAYERS)
    for part, shape in (("weight", (64, 192)), ("bias", (192,)))
}

RECIPES = {
    "bitnet": Direct("bitnet", keys(), {**tensors(tied=True), **SUB_NORMS}),
    "internlm2": Direct("internlm2", keys(rope__freq_base=1e5), tensors()),
    "xverse": Direct("xverse", keys(), tensors()),
    # llama.cpp knows the 7B by its layers.
    "baichuan": Direct(
        "baichuan", keys(sizes=NARROW, block_count=32), tensors(layers=32, sizes=NARROW)
    ),
    "baichuan-large": Direct(
        "baichuan", keys(sizes=NARROW, block_count=40), tensors(layers=40, sizes=NARROW)
    ),
    "refact": Direct("refact", keys(sizes=MANY), tensors(tied=True, sizes=MANY)),
    "jais": Direct(
        "jais",
        keys("layer_norm_epsilon", sizes=SQUARE, attention__max_alibi_bias=8.0),
        {
            **tensors(
                left_out=SPLIT, biases=f"{NORMS} attn_output ffn_gate ffn_up ffn_down", sizes=SQUARE
            ),
            **FUSED,
        },
        peaked={"attn_qkv.weight": 6.0},
    ),
    "pangu-embedded": Direct("pangu-embedded", keys(), tensors(biases=PROJECTIONS)),
    "exaone": Direct(
        "exaone",
        keys(),
        {**tensors(tied=True), "rope_freqs.weight": (DIM // 2,)},
        values={"rope_freqs.weight": FACTORS},
    ),
    "orion": Direct("orion", keys("layer_norm_epsilon"), tensors(biases=NORMS)),
    "plamo": Direct("plamo", keys(), tensors(left_out="ffn_norm")),
    "jais2": Direct(
        "jais2",
        keys("layer_norm_epsilon"),
        tensors(left_out="ffn_gate", biases=f"{NORMS} {PROJECTIONS} ffn_up ffn_down"),
    ),
    "minicpm": Direct(
        "minicpm",
        keys(embedding_scale=3.0, residual_scale=0.4, logit_scale=2.0),
        tensors(tied=True),
    ),
    "minicpm-early": Direct("minicpm", keys(logit_scale=0.25), tensors()),
    "maincoder": Direct("maincoder", keys(), {**tensors(), **HEAD_NORMS}, peaked={}),
    "neo-bert": Direct(
        "neo-bert",
        keys(attention__head_count_kv=4, attention__causal=False),
        NEO,
        peaked={"attn_qkv": 2.0},
        encodes=True,
    ),
    "neo-bert-labels": Direct(
        "neo-bert",
        keys(
            attention__head_count_kv=4,
            attention__causal=False,
            classifier__output_labels=["against", "neither", "for"],
        ),
        {
            **NEO,
            "cls.weight": (64, 64),
            "cls.bias": (64,),
            "cls.output.weight": (64, 3),
            "cls.output.bias": (3,),
        },
        peaked={"attn_qkv": 2.0},
        ranks=True,
    ),
    "bert-rank": Direct(
        "bert",
        keys("layer_norm_epsilon", attention__head_count_kv=4, attention__causal=False)
        | {"tokenizer.ggml.token_type_count": 2},
        {
            "token_embd.weight": (64, V),
            "position_embd.weight": (64, 512),
            "token_types.weight": (64, 2),
            "cls.output.weight": (64, 1),
            **{f"token_embd_norm.{part}": (64,) for part in ("weight", "bias")},
            "cls.output.bias": (1,),
            **{f"blk.{i}.{name}": s for i in range(LAYERS) for name, s in BERT_BLOCK.items()},
        },
        # llama.cpp's GELU is a table of halves: a smaller part of the result.
        peaked={"attn_q.": 3.0, "attn_k.": 3.0, "ffn_down": 0.03125},
        ranks=True,
    ),
    "nanbeige": Direct("nanbeige", keys(num_loops=2, block_count=2), tensors(layers=2)),
}
