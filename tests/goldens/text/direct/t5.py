"""T5: scores with a learned bias by distance and without a scale."""

from tests.goldens.text.direct import Direct, Key
from tests.goldens.text.direct.dense import Tensors
from tests.goldens.text.recipe import V

E, F, HEADS, DIM, LAYERS = 64, 96, 4, 16, 3


def keys(buckets: int, **others: Key) -> dict[str, Key]:
    """Of a model whose heads are as wide together as its embedding or not."""
    return {
        "block_count": LAYERS,
        "context_length": 512,
        "embedding_length": E,
        "feed_forward_length": F,
        "attention.head_count": HEADS,
        "attention.key_length": DIM,
        "attention.value_length": DIM,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "attention.relative_buckets_count": buckets,
        **others,
    }


def attention(prefix: str, heads: int = HEADS) -> Tensors:
    """A layer's matrices and norm."""
    rows = heads * DIM
    return {
        f"{prefix}attn_norm.weight": (E,),
        **{f"{prefix}attn_{part}.weight": (E, rows) for part in "qkv"},
        f"{prefix}attn_o.weight": (rows, E),
    }


def feed(prefix: str, gated: bool) -> Tensors:
    """A layer's feed-forward and norm."""
    ups = ("ffn_gate", "ffn_up") if gated else ("ffn_up",)
    return {
        f"{prefix}ffn_norm.weight": (E,),
        **{f"{prefix}{name}.weight": (E, F) for name in ups},
        f"{prefix}ffn_down.weight": (F, E),
    }


def encoder(buckets: int, gated: bool, biased: int, heads: int = HEADS) -> Tensors:
    """Its tensors; the first `biased` layers have a bias of their own."""
    made: Tensors = {"token_embd.weight": (E, V), "enc.output_norm.weight": (E,)}
    for i in range(LAYERS):
        prefix = f"enc.blk.{i}."
        made |= attention(prefix, heads) | feed(prefix, gated)
        if i < biased:
            made[f"{prefix}attn_rel_b.weight"] = (heads, buckets)
    return made


def decoder(buckets: int, gated: bool, biased: int, tied: bool, heads: int = HEADS) -> Tensors:
    """Its tensors, beside an encoder's."""
    made: Tensors = {"dec.output_norm.weight": (E,)}
    if not tied:
        made["output.weight"] = (E, V)
    rows = heads * DIM
    for i in range(LAYERS):
        prefix = f"dec.blk.{i}."
        made |= attention(prefix, heads) | feed(prefix, gated)
        made[f"{prefix}cross_attn_norm.weight"] = (E,)
        made |= {f"{prefix}cross_attn_{part}.weight": (E, rows) for part in "qkv"}
        made[f"{prefix}cross_attn_o.weight"] = (rows, E)
        if i < biased:
            made[f"{prefix}attn_rel_b.weight"] = (heads, buckets)
    return made


# Queries and keys are drawn small: nothing divides their products. llama.cpp's GELU is a table of
# halves: near 0 they agree.
PEAKED = {"attn_q.": 0.6, "attn_k.": 0.6, "attn_rel_b": 6.0}
CROSSED = {"cross_attn_q.": 2.0, "cross_attn_k.": 2.0}
FAINT = {"ffn_gate": 0.2, "ffn_up": 0.2}

RECIPES = {
    "t5encoder": Direct(
        "t5encoder", keys(32), encoder(32, gated=False, biased=1), PEAKED, encodes=True
    ),
    "t5encoder-gated": Direct(
        "t5encoder",
        {**keys(8), "attention.head_count": 2},
        encoder(8, gated=True, biased=2, heads=2),
        {**PEAKED, **FAINT},
        seed=2,
        encodes=True,
    ),
    # As early files have it, one bias more, which nothing reads.
    "t5": Direct(
        "t5",
        keys(32, decoder_block_count=LAYERS, decoder_start_token_id=5),
        {
            **encoder(32, gated=False, biased=1),
            **decoder(32, gated=False, biased=1, tied=True),
            "dec.blk.0.cross_attn_rel_b.weight": (HEADS, 32),
        },
        {**CROSSED, **PEAKED},
        seed=3,
        answers=True,
    ),
    "t5-gated": Direct(
        "t5",
        {**keys(8), "attention.head_count": 2},
        {
            **encoder(8, gated=True, biased=2, heads=2),
            **decoder(8, gated=True, biased=2, tied=False, heads=2),
        },
        {**CROSSED, **PEAKED, **FAINT},
        seed=4,
        answers=True,
    ),
}
