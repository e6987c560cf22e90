"""A 70B-sized file with an eye: names and shapes of real ones, a header and no data (a hole).

The sizes of Llama 3.1 70B in Q4_K_M with the tower of Pixtral, named as in the single files that
Ollama makes of Mistral Small 3.1: its architecture is one whose tower is in the same file.
"""

import os
from math import prod
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

ARCH = "mistral3"
LAYERS, E, F, V, HEADS, KV_HEADS = 80, 8192, 28672, 128256, 64, 8
VISION_LAYERS, VISION_E, VISION_F, VISION_HEADS = 24, 1024, 4096, 16
SIDE, PATCH = 1024, 16
MERGES = 280147


def write_seventy(path: Path) -> int:
    """Write the header to `path`; its tensors take as many bytes as returned."""
    writer = gguf.GGUFWriter(path, ARCH)
    writer.add_name("Seventy")
    writer.add_context_length(131072)
    writer.add_embedding_length(E)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_feed_forward_length(F)
    writer.add_rope_freq_base(500000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(["[IMG_BREAK]", "[IMG_END]", *(f"token{i}" for i in range(V - 2))])
    writer.add_token_types([1] * V)
    writer.add_token_merges([f"a{i} b{i}" for i in range(MERGES)])
    for key, value in (
        ("block_count", VISION_LAYERS),
        ("embedding_length", VISION_E),
        ("attention.head_count", VISION_HEADS),
        ("image_size", SIDE),
        ("patch_size", PATCH),
    ):
        writer.add_uint32(f"{ARCH}.vision.{key}", value)
    size = 0
    for name, shape, kind in tensors():
        block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        in_bytes = (*reversed(shape[1:]), shape[0] // block * block_bytes)
        writer.add_tensor_info(name, in_bytes, np.dtype(np.uint8), prod(in_bytes), raw_dtype=kind)
        size += -(-prod(in_bytes) // 32) * 32
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    header = -(-path.stat().st_size // 32) * 32
    os.truncate(path, header + size)
    return size


def tensors() -> list[tuple[str, tuple[int, ...], Type]]:
    """Name, shape (fastest first) and type of each."""
    q4, q6, f32, f16 = Type.Q4_K, Type.Q6_K, Type.F32, Type.F16
    kv = E // HEADS * KV_HEADS
    found: list[tuple[str, tuple[int, ...], Type]] = [
        ("token_embd.weight", (E, V), q4),
        ("output_norm.weight", (E,), f32),
        ("output.weight", (E, V), q6),
    ]
    for i in range(LAYERS):
        more = q6 if i < LAYERS // 8 or i >= LAYERS * 7 // 8 or i % 3 == 2 else q4
        found += [
            (f"blk.{i}.attn_norm.weight", (E,), f32),
            (f"blk.{i}.attn_q.weight", (E, E), q4),
            (f"blk.{i}.attn_k.weight", (E, kv), q4),
            (f"blk.{i}.attn_v.weight", (E, kv), more),
            (f"blk.{i}.attn_output.weight", (E, E), q4),
            (f"blk.{i}.ffn_norm.weight", (E,), f32),
            (f"blk.{i}.ffn_gate.weight", (E, F), q4),
            (f"blk.{i}.ffn_up.weight", (E, F), q4),
            (f"blk.{i}.ffn_down.weight", (F, E), more),
        ]
    found += [("v.patch_conv.weight", (PATCH, PATCH, 3, VISION_E), f16)]
    found += [("v.encoder_norm.weight", (VISION_E,), f32)]
    for i in range(VISION_LAYERS):
        block = f"v.blk.{i}"
        found += [(f"{block}.{n}_norm.weight", (VISION_E,), f32) for n in ("attn", "ffn")]
        found += [
            (f"{block}.attn_{n}.weight", (VISION_E, VISION_E), f16)
            for n in ("q", "k", "v", "output")
        ]
        found += [(f"{block}.ffn_{n}.weight", (VISION_E, VISION_F), f16) for n in ("gate", "up")]
        found += [(f"{block}.ffn_down.weight", (VISION_F, VISION_E), f16)]
    found += [("mm.linear_1.weight", (VISION_E, E), f16), ("mm.linear_2.weight", (E, E), f16)]
    return found
