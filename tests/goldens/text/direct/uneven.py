"""Older models, and those whose layers differ in what they have."""

from tests.goldens.text.direct import PEAKED, Direct, Key, Shape
from tests.goldens.text.direct.dense import DIM, NORMS, Tensors, keys, parts, tensors
from tests.goldens.text.recipe import V

E, F = 64, 96
JOINT = "attn_q attn_k attn_v"
HEADS, HEADS_KV, FEEDS = [2, 4, 3], [1, 2, 3], [64, 96, 128]
TURNED, PLAIN, VALUE, RANK = 8, 16, 16, 32
AROUND: Tensors = {"token_embd.weight": (E, V), "output_norm.weight": (E,)}


def joint(queries: int, keys_each: int, layers: int) -> Tensors:
    """One matrix for queries, keys and values, with a bias."""
    rows = queries + 2 * keys_each
    made: Tensors = {}
    for i in range(layers):
        made[f"blk.{i}.attn_qkv.weight"] = (E, rows)
        made[f"blk.{i}.attn_qkv.bias"] = (rows,)
    return made


def uneven(i: int) -> Tensors:
    """A layer with heads and a feed-forward of its own."""
    heads, rows = HEADS[i], (HEADS[i] + 2 * HEADS_KV[i]) * DIM
    return {
        "attn_norm.weight": (E,),
        "attn_qkv.weight": (E, rows),
        "attn_q_norm.weight": (DIM,),
        "attn_k_norm.weight": (DIM,),
        "attn_output.weight": (heads * DIM, E),
        "ffn_norm.weight": (E,),
        "ffn_gate.weight": (E, FEEDS[i]),
        "ffn_up.weight": (E, FEEDS[i]),
        "ffn_down.weight": (FEEDS[i], E),
    }


def latent() -> dict[str, Shape]:
    """A layer whose keys and values are made of a latent."""
    return {
        "attn_norm.weight": (E,),
        "attn_q.weight": (E, 4 * (PLAIN + TURNED)),
        "attn_kv_a_mqa.weight": (E, RANK + TURNED),
        "attn_kv_a_norm.weight": (RANK,),
        "attn_kv_b.weight": (RANK, 4 * (PLAIN + VALUE)),
        "attn_output.weight": (4 * VALUE, E),
        "ffn_norm.weight": (E,),
        "ffn_up.weight": (E, F),
        "ffn_down.weight": (F, E),
    }


def lacking(i: int) -> Tensors:
    """A layer as Llama has them, one with a matrix in place of attention, or without any."""
    whole = {f"{name}.weight": shape for name, shape in parts((E, F, E, E // 2)).items()}
    if i in (0, 3):
        return whole
    attention = {name for name in whole if name.startswith("attn")}
    kept = {"attn_norm.weight", "attn_output.weight"} if i == 1 else set()
    return {name: shape for name, shape in whole.items() if name not in attention - kept}


def encoding(of_code: bool) -> Tensors:
    """A layer of Jina's encoders: gate and up of two matrices for code, or of one."""
    made: Tensors = {"attn_output.weight": (E, E), "attn_output.bias": (E,)}
    names = ["attn_output_norm", "layer_output_norm"]
    for part in ("attn_q", "attn_k", "attn_v"):
        made |= {f"{part}.weight": (E, E), f"{part}.bias": (E,)}
    if of_code:
        names += ["attn_q_norm", "attn_k_norm", "attn_norm_2"]
        made |= {"ffn_gate.weight": (E, F), "ffn_up.weight": (E, F)}
    else:
        made["ffn_up.weight"] = (E, 2 * F)
    for name in names:
        made |= {f"{name}.weight": (E,), f"{name}.bias": (E,)}
    return {**made, "ffn_down.weight": (F, E), "ffn_down.bias": (E,)}


def blocks(*layers: Tensors) -> Tensors:
    """Under their names in a file."""
    return {f"blk.{i}.{name}": s for i, block in enumerate(layers) for name, s in block.items()}


def without(made: dict[str, Key], *names: str) -> dict[str, Key]:
    """The keys but some."""
    return {name: value for name, value in made.items() if name not in names}


JINA: dict[str, Key] = {
    **without(keys("layer_norm_epsilon"), "rope.dimension_count"),
    "attention.head_count_kv": 4,
    "attention.causal": False,
    "tokenizer.ggml.token_type_count": 2,
}
ENTRANCE: Tensors = {
    "token_embd.weight": (E, V),
    "token_types.weight": (E, 2),
    "token_embd_norm.weight": (E,),
    "token_embd_norm.bias": (E,),
}
# llama.cpp's GELU is the approximate one, from a table of halves: near 0 they agree.
FAINT = {"ffn_gate": 0.2, "ffn_up": 0.2}

RECIPES = {
    "jina-bert-v2": Direct(
        "jina-bert-v2",
        JINA,
        {**ENTRANCE, **blocks(*[encoding(False)] * 3)},
        peaked={**PEAKED, **FAINT},
        encodes=True,
    ),
    "jina-bert-v2-rank": Direct(
        "jina-bert-v2",
        JINA,
        {
            **ENTRANCE,
            **blocks(*[encoding(False)] * 3),
            "cls.weight": (E, 1),
            "cls.bias": (1,),
        },
        peaked={**PEAKED, **FAINT},
        ranks=True,
    ),
    "jina-bert-v2-code": Direct(
        "jina-bert-v2",
        JINA,
        {**ENTRANCE, **blocks(*[encoding(True)] * 3)},
        peaked={"attn_q_norm": 2.0, "attn_k_norm": 2.0, **FAINT},
        encodes=True,
    ),
    "qwen": Direct(
        "qwen",
        without(keys(sizes=(E, 2 * F, E, E), rope__freq_base=1e4), "attention.head_count_kv"),
        {**tensors(left_out=JOINT, sizes=(E, F, E, E)), **joint(E, E, 3)},
        peaked={"attn_qkv.weight": 3.0},
    ),
    "codeshell": Direct(
        "codeshell",
        without(keys("layer_norm_epsilon"), "rope.dimension_count"),
        {
            **{
                name: shape
                for name, shape in tensors(
                    left_out=f"{JOINT} ffn_gate", biases=f"{NORMS} attn_output ffn_up ffn_down"
                ).items()
                if name != "token_embd.weight"
            },
            **joint(E, E // 2, 3),
        },
        # llama.cpp's GELU is a table of halves: a smaller part of the result.
        peaked={"attn_qkv.weight": 3.0, "output.weight": 8.0, "ffn_down": 0.125},
    ),
    "openelm": Direct(
        "openelm",
        keys(
            attention__head_count=HEADS,
            attention__head_count_kv=HEADS_KV,
            attention__key_length=DIM,
            attention__value_length=DIM,
            feed_forward_length=FEEDS,
        ),
        {**AROUND, **blocks(*map(uneven, range(3)))},
        peaked={"attn_q_norm": 2.0, "attn_k_norm": 2.0},
    ),
    "plm": Direct(
        "plm",
        keys(
            attention__head_count=4,
            attention__head_count_kv=4,
            attention__key_length=PLAIN + TURNED,
            attention__value_length=VALUE,
            attention__kv_lora_rank=RANK,
            attention__layer_norm_rms_epsilon=1e-6,
            rope__dimension_count=TURNED,
        ),
        {**AROUND, **blocks(latent(), latent(), latent())},
        peaked={"attn_q.": 3.0, "attn_kv_b": 3.0},
    ),
    "deci": Direct(
        "deci",
        keys(
            block_count=4,
            attention__head_count=[4, 4, 0, 4],
            attention__head_count_kv=[2, 0, 0, 2],
            attention__key_length=DIM,
            attention__value_length=DIM,
            feed_forward_length=[F, F, F, F],
        ),
        {**AROUND, "output.weight": (E, V), **blocks(*map(lacking, range(4)))},
    ),
    "deci-blank": Direct(
        "deci",
        keys(
            block_count=4,
            attention__head_count=[4, 0, 0, 4],
            attention__head_count_kv=[2, 0, 0, 2],
            attention__key_length=DIM,
            attention__value_length=DIM,
            feed_forward_length=[F, 0, F, F],
        ),
        {**AROUND, "output.weight": (E, V), **blocks(lacking(0), {}, lacking(2), lacking(3))},
    ),
}
