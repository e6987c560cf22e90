"""Models whose scores fall with the distance."""

from tests.engine.models.published.others import EPS, plain, with_first
from tests.engine.models.published.size import NORMS, dense, kv, mixed, vectors

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

SIZES = {
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
