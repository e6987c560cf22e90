"""Models with recurrent layers, as they are published."""

from collections.abc import Mapping

from tests.engine.models.published.header import Value
from tests.engine.models.published.size import (
    NORMS,
    Block,
    Size,
    attention,
    every,
    experts,
    gated,
    kv,
    mixed,
    state,
    vectors,
)


def lfm2(attentive: tuple[int, ...], dense: int, f: int, moe: bool) -> Block:
    e = 2048
    both = vectors(NORMS, e)
    mix = attention(e, 32, 8, 64) | vectors("attn_q_norm attn_k_norm", 64)
    conv = {"shortconv.in_proj": (e, 3 * e), "shortconv.conv": (3, e), "shortconv.out_proj": (e, e)}
    many = experts(e, 1792, 32) | {"exp_probs_b.bias": (32,)}
    return lambda i: {
        **both,
        **(mix if i in attentive else conv),
        **(many if moe and i >= dense else gated(e, f)),
    }


def delta(e: int, hk: int, hv: int, joined: bool) -> dict[str, tuple[int, ...]]:
    """A gated delta net with heads of 128."""
    channels = 128 * (2 * hk + hv)
    gates = {"ssm_ba": (e, 2 * hv)} if joined else {"ssm_beta": (e, hv), "ssm_alpha": (e, hv)}
    made = {"attn_qkv": (e, channels), "attn_gate": (e, 128 * hv), "ssm_conv1d": (4, channels)}
    made |= {"ssm_dt.bias": (hv,), "ssm_a": (hv,), "ssm_norm": (128,), "ssm_out": (128 * hv, e)}
    return {**made, **gates}


def qwen35(
    arch: str,
    params: float,
    sizes: tuple[int, int, int, int, int, int, int],
    hv: int,
    x: int = 0,
) -> Size:
    n, e, f, h, k, d, v = sizes
    forward = experts(e, f, x, f) | {"ffn_gate_inp_shexp": (e,)} if x else gated(e, f)
    both = {**vectors("attn_norm post_attention_norm", e), **forward}
    full = attention(e, h, k, d, gate=2) | vectors("attn_q_norm attn_k_norm", d)
    net = delta(e, 16, hv, arch == "qwen3next")
    others: dict[str, Value] = {"ssm__state_size": 128, "ssm__group_count": 16}
    others |= {"ssm__time_step_rank": hv, "ssm__inner_size": 128 * hv, "ssm__conv_kernel": 4}
    others |= {"full_attention_interval": 4, "rope__dimension_count": 64}
    if arch != "qwen3next":
        others["rope__dimension_sections"] = [11, 11, 10, 0]
    if x:
        others |= {"expert_count": x, "expert_used_count": 8, "expert_feed_forward_length": f}
        others["expert_shared_feed_forward_length"] = f
    cache = kv(n // 4, k, d) + state(n - n // 4, 4, 128 * (32 + hv), 128 * 128 * hv)
    block = every(4, both | full, both | net)
    return mixed(arch, params, (n, e, f, h, k, d, v), block, cache, **others)


def mamba2(
    e: int, inner: int, groups: int, heads: int, size: int, normed: bool = True
) -> dict[str, tuple[int, ...]]:
    channels = inner + 2 * groups * size
    made = {"ssm_in": (e, inner + channels + heads), "ssm_conv1d": (4, channels)}
    made |= {"ssm_conv1d.bias": (channels,), "ssm_dt.bias": (heads,), "ssm_a": (1, heads)}
    made |= {"ssm_d": (1, heads), "ssm_out": (inner, e)}
    return made | ({"ssm_norm": (inner // groups, groups)} if normed else {})


def ssm(inner: int, groups: int, heads: int, size: int) -> dict[str, Value]:
    made: dict[str, Value] = {"ssm__inner_size": inner, "ssm__group_count": groups}
    made |= {"ssm__time_step_rank": heads, "ssm__state_size": size, "ssm__conv_kernel": 4}
    return made


MAMBA = {
    "attn_norm": (4096,), "ssm_in": (4096, 16384), "ssm_conv1d": (4, 8192),
    "ssm_conv1d.bias": (8192,), "ssm_x": (8192, 288), "ssm_dt": (256, 8192),
    "ssm_dt.bias": (8192,), "ssm_a": (16, 8192), "ssm_d": (8192,), "ssm_out": (8192, 4096),
}  # fmt: skip
NANO = "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-"
NANO_PARTS: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "M": mamba2(4480, 10240, 8, 128, 128),
    "-": {"ffn_up": (4480, 15680), "ffn_down": (15680, 4480)},
    "*": attention(4480, 40, 8, 128),
}
LFM2 = (2, 5, 8, 10, 12, 14)
LFM2MOE = (2, 6, 10, 14, 18, 21)
NANO3 = "ME" * 2 + "M*" + "EMEMEM*" * 4 + "EMEMEMEM*" + "EMEMEMEME"
NANO3_PARTS: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "M": mamba2(2688, 4096, 8, 64, 128),
    "E": {
        "ffn_gate_inp": (2688, 128), "exp_probs_b.bias": (128,),
        "ffn_up_exps": (2688, 1856, 128), "ffn_down_exps": (1856, 2688, 128),
        "ffn_up_shexp": (2688, 3712), "ffn_down_shexp": (3712, 2688),
    },
    "*": attention(2688, 32, 2, 128),
}  # fmt: skip
TINY_H = {i: attention(1536, 12, 4, 128) for i in (5, 15, 25, 35)}
TINY_MAMBA = mamba2(1536, 3072, 1, 48, 128)
SIZES = {
    "lfm2-1.2b": mixed(
        "lfm2", 1_170_340_608,
        (16, 2048, 8192, 32, [8 * (i in LFM2) for i in range(16)], 64, 65536),
        lfm2(LFM2, 0, 8192, moe=False), kv(6, 8, 64) + state(10, 3, 2048, 0),
        tied=True, norm="token_embd_norm", shortconv__l_cache=3,
    ),
    "lfm2-8b-a1b": mixed(
        "lfm2moe", 8_339_929_856,
        (24, 2048, 7168, 32, [8 * (i in LFM2MOE) for i in range(24)], 64, 65536),
        lfm2(LFM2MOE, 2, 7168, moe=True), kv(6, 8, 64) + state(18, 3, 2048, 0),
        tied=True, norm="token_embd_norm", shortconv__l_cache=3, leading_dense_block_count=2,
        expert_count=32, expert_used_count=4, expert_feed_forward_length=1792,
        expert_gating_func=2,
    ),
    "qwen3.5-27b": qwen35("qwen35", 26.90e9, (64, 5120, 17408, 24, 4, 256, 248320), 48),
    "qwen3.5-35b-a3b": qwen35("qwen35moe", 34.66e9, (40, 2048, 512, 16, 2, 256, 248320), 32, 256),
    "qwen3-next-80b": qwen35("qwen3next", 79.67e9, (48, 2048, 512, 16, 2, 256, 151936), 32, 512),
    "mamba2-2.7b": mixed(
        "mamba2", 2_702_599_680, (64, 2560, 0, 1, 0, 64, 50288),
        lambda i: {"attn_norm": (2560,), **mamba2(2560, 5120, 1, 80, 128)},
        state(64, 4, 5376, 5120 * 128), tied=True, **ssm(5120, 1, 80, 128),
    ),
    "falcon-mamba-7b": mixed(
        "mamba", 7_272_665_088, (64, 4096, 0, 1, 0, 64, 65024), lambda i: MAMBA,
        state(64, 4, 8192, 8192 * 16), **{**ssm(8192, 0, 256, 16), "ssm__dt_b_c_rms": True},
    ),
    "falcon-h1-0.5b": mixed(
        "falcon-h1", 521_411_104, (36, 1024, 2048, 8, 2, 64, 32784),
        lambda i: {"attn_norm": (1024,), "ffn_norm": (1024,), **attention(1024, 8, 2, 64),
                   **gated(1024, 2048), **mamba2(1024, 1536, 1, 24, 128, normed=False)},
        kv(36, 2, 64) + state(36, 4, 1792, 1536 * 128), **ssm(1536, 1, 24, 128),
    ),
    "nemotron-nano-9b-v2": mixed(
        "nemotron_h", 8_888_227_328,
        (56, 4480, [15680 * (c == "-") for c in NANO], 40, [8 * (c == "*") for c in NANO], 128,
         131072),
        lambda i: {"attn_norm": (4480,), **NANO_PARTS[NANO[i]]},
        kv(4, 8, 128) + state(27, 4, 12288, 10240 * 128), **ssm(10240, 8, 128, 128),
    ),
    "nemotron-3-nano-30b": mixed(
        "nemotron_h_moe", 31.58e9,
        (52, 2688, [1856 * (c == "E") for c in NANO3], 32, [2 * (c == "*") for c in NANO3], 128,
         131072),
        lambda i: {"attn_norm": (2688,), **NANO3_PARTS[NANO3[i]]},
        kv(6, 2, 128) + state(23, 4, 6144, 4096 * 128), expert_count=128, expert_used_count=6,
        expert_feed_forward_length=1856, expert_shared_feed_forward_length=3712,
        **ssm(4096, 8, 64, 128),
    ),
    "granite-4.0-h-tiny": mixed(
        "granitehybrid", 6.94e9,
        (40, 1536, 512, 12, [4 * (i in TINY_H) for i in range(40)], 128, 100352),
        lambda i: {**vectors("attn_norm ffn_norm", 1536), **TINY_H.get(i, TINY_MAMBA),
                   **experts(1536, 512, 64, 1024)},
        kv(4, 4, 128) + state(36, 4, 3328, 3072 * 128), tied=True, expert_count=64,
        expert_used_count=6, expert_shared_feed_forward_length=1024, **ssm(3072, 1, 48, 128),
    ),
}  # fmt: skip
