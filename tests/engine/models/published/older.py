"""Older models: whose scores fall with the distance, and whose layers differ."""

from tests.engine.models.published.others import EPS, plain, with_first
from tests.engine.models.published.size import (
    CONTEXT,
    HALF,
    NORMS,
    dense,
    gated,
    kv,
    mixed,
    vectors,
)

BLOOM = {
    **vectors(NORMS, 1024), "attn_norm.bias": (1024,), "ffn_norm.bias": (1024,),
    "attn_qkv": (1024, 3072), "attn_qkv.bias": (3072,), "attn_output": (1024, 1024),
    "attn_output.bias": (1024,), **plain(1024, 4096),
}  # fmt: skip
MPT = {
    **vectors(NORMS, 4096), "attn_qkv": (4096, 12288), "attn_output": (4096, 4096),
    "ffn_up": (4096, 16384), "ffn_down": (16384, 4096),
}  # fmt: skip
AROUND = {
    "token_embd_norm.weight": (1024,), "token_embd_norm.bias": (1024,),
    "output_norm.bias": (1024,),
}  # fmt: skip
QWEN = {
    **vectors(NORMS, 4096), "attn_qkv": (4096, 12288), "attn_qkv.bias": (12288,),
    "attn_output": (4096, 4096), **gated(4096, 11008),
}  # fmt: skip
ELM_HEADS, ELM_KV = [12] * 5 + [16] * 7 + [20] * 4, [3] * 5 + [4] * 7 + [5] * 4
ELM_FEEDS = [3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20]


def elm(i: int) -> dict[str, tuple[int, ...]]:
    """A layer of OpenELM 270M."""
    return {
        **vectors(NORMS, 1280), **vectors("attn_q_norm attn_k_norm", 64),
        "attn_qkv": (1280, 64 * (ELM_HEADS[i] + 2 * ELM_KV[i])),
        "attn_output": (64 * ELM_HEADS[i], 1280), **gated(1280, 256 * ELM_FEEDS[i]),
    }  # fmt: skip


SIZES = {
    "qwen-7b": mixed(
        "qwen",
        7_721_324_544,
        (32, 4096, 22016, 32, 32, 128, 151936),
        lambda i: QWEN,
        kv(32, 32, 128),
    ),
    "openelm-270m": mixed(
        "openelm",
        271_527_168,
        (16, 1280, 768, 12, 3, 64, 32000),
        elm,
        sum(ELM_KV) * 2 * 64 * CONTEXT * HALF,
        tied=True,
        attention__head_count=ELM_HEADS,
        attention__head_count_kv=ELM_KV,
    ),
    "bloom-560m": with_first(
        mixed(
            "bloom",
            559_214_592,
            (24, 1024, 4096, 16, 16, 64, 250880),
            lambda i: BLOOM,
            kv(24, 16, 64, 2048),
            tied=True,
            context_length=2048,
            **EPS,
        ),
        AROUND,
    ),
    "mpt-7b": mixed(
        "mpt",
        6_649_286_656,
        (32, 4096, 16384, 32, 32, 128, 50432),
        lambda i: MPT,
        kv(32, 32, 128, 2048),
        tied=True,
        context_length=2048,
        attention__max_alibi_bias=8.0,
        **EPS,
    ),
    "baichuan-13b": dense(
        "baichuan",
        13_264_901_120,
        (40, 5120, 13696, 40, 40, 128, 64000),
        cache=kv(40, 40, 128, 4096),
        context_length=4096,
    ),
}
