"""Tiny random models as real GGUF files: every path of three architectures, nothing to download.

`tiny-<architecture>.npz` holds `tokens` int32 [40] and the float32 reference's `logits` [40, 320]
(made by make_tiny.py). Weights come from raw PCG64 draws, which are the same in every NumPy.

- llama: grouped heads, rope factors as in Llama 3, an output matrix of its own, byte-level BPE.
- mistral3: YaRN beyond 16 tokens, and queries that rise every 16.
- gemma3: six local layers around a window of 8 and one global one, query and key norms, capped
  logits, tied embeddings, SentencePiece.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np

E, V, TOKENS = 64, 320, 40


class Draws:
    """Numbers that depend on the seed alone."""

    def __init__(self, seed: int) -> None:
        self._source = np.random.PCG64(seed)

    def uniform(self, *shape: int) -> np.ndarray:
        """Uniform in [-1, 1), float64."""
        raw = self._source.random_raw(int(np.prod(shape)))
        return (raw >> np.uint64(11)).reshape(shape) * 2.0**-52 - 1

    def matrix(self, rows: int, columns: int, gain: float = 1.0) -> np.ndarray:
        """Outputs about `gain` times as large as inputs: float16 [rows, columns]."""
        return (self.uniform(rows, columns) * gain * np.sqrt(3 / columns)).astype(np.float16)

    def norm(self, size: int) -> np.ndarray:
        """Around 1, float32 [size]."""
        return (1 + self.uniform(size) / 2).astype(np.float32)

    def ids(self, count: int) -> np.ndarray:
        """Token ids, none of the first four (which are special): int32 [count]."""
        raw = self._source.random_raw(count)
        return (4 + raw % np.uint64(V - 4)).astype(np.int32)


Value = tuple[Any, gguf.GGUFValueType]


class _Writer(gguf.GGUFWriter):
    """Quantises matrices whose names hold one of the keys of `kinds`, by the first that they do.

    `own_metadata` and `own_tensors` stand in place of what would be written by these names.
    """

    kinds: Mapping[str, gguf.GGMLQuantizationType] = {}
    own_metadata: Mapping[str, Value] = {}
    own_tensors: Mapping[str, np.ndarray] = {}

    def add_key_value(self, key: str, *value: Any, **options: Any) -> None:
        if key not in self.own_metadata:
            super().add_key_value(key, *value, **options)

    def add_tensor(self, name: str, tensor: np.ndarray, **options: Any) -> None:
        if name in self.own_tensors and self.own_tensors[name] is not tensor:
            return
        kind = next((kind for part, kind in self.kinds.items() if part in name), None)
        if kind is None or tensor.ndim == 1:
            super().add_tensor(name, tensor, **options)
        else:
            blocks = gguf.quants.quantize(tensor.astype(np.float32), kind)
            super().add_tensor(name, blocks, raw_dtype=kind, **options)


def write_tiny(
    path: Path,
    architecture: str,
    kinds: Mapping[str, gguf.GGMLQuantizationType] | None = None,
    metadata: Mapping[str, Value] | None = None,
    tensors: Mapping[str, np.ndarray] | None = None,
    write: Callable[[gguf.GGUFWriter], None] | None = None,
    **options: Any,
) -> Path:
    """Write one of ARCHITECTURES to `path`, or what `write` adds; `options` go to gguf.GGUFWriter.

    `kinds` gives parts of matrices' names their types: {"ffn_": Q4_1}. `metadata` and `tensors` are
    written in place of those of the same name, or besides. With `split_max_tensors=n` it is
    `<stem>-00001-of-....gguf` and so on that are written.
    """
    writer = _Writer(path, architecture, **options)
    writer.kinds, writer.own_tensors = kinds or {}, tensors or {}
    for key, (value, kind) in (metadata or {}).items():
        writer.add_key_value(key, value, kind)
    writer.own_metadata = metadata or {}
    (write or WRITERS[architecture])(writer)
    for name, values in writer.own_tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file(path)
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_wide(path: Path) -> Path:
    """A tiny model with layers of some megabytes."""
    draws, wide = Draws(5), 12288  # less would be too little to be prepared
    tensors = {}
    for n in range(3):
        for name, rows, columns in (("up", wide, E), ("gate", wide, E), ("down", E, wide)):
            tensors[f"blk.{n}.ffn_{name}.weight"] = draws.matrix(rows, columns)
    width = {"llama.feed_forward_length": (wide, gguf.GGUFValueType.UINT32)}
    return write_tiny(path, "llama", {"weight": gguf.GGMLQuantizationType.Q8_0}, width, tensors)


def tiny_tokens(architecture: str) -> np.ndarray:
    """The ids of the stored logits: int32 [40], BOS first where the file adds one."""
    ids = Draws(3).ids(TOKENS)
    if architecture == "gemma3":
        ids[0] = 2
    return ids


def _llama(writer: gguf.GGUFWriter) -> None:
    draws, layers, heads, kv_heads, d, f = Draws(1), 3, 4, 2, 16, 96
    _sizes(writer, layers, heads, kv_heads, f)
    writer.add_rope_dimension_count(d)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    byte_level_vocabulary(writer)
    writer.add_tensor("token_embd.weight", draws.matrix(V, E, gain=8))
    writer.add_tensor("output.weight", draws.matrix(V, E, gain=3))
    writer.add_tensor("output_norm.weight", draws.norm(E))
    # The slower a pair turns, the more it is slowed: from 1 for the first pair to 8.
    factors = np.array([1, 1.3, 2, 3, 5, 8, 8, 8], np.float32)
    writer.add_tensor("rope_freqs.weight", factors)
    for i in range(layers):
        _attention(writer, draws, f"blk.{i}", heads * d, kv_heads * d, gain=1.3)
        _feed_forward(writer, draws, f"blk.{i}", f)


def _mistral3(writer: gguf.GGUFWriter) -> None:
    draws, layers, heads, kv_heads, d, f = Draws(4), 3, 4, 2, 32, 64
    _sizes(writer, layers, heads, kv_heads, f)
    writer.add_key_length(d)
    writer.add_value_length(d)
    writer.add_rope_dimension_count(d)
    writer.add_rope_freq_base(1000.0)
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(8.0)
    writer.add_rope_scaling_orig_ctx_len(16)
    writer.add_float32("mistral3.rope.scaling.yarn_beta_fast", 1.0)
    writer.add_float32("mistral3.rope.scaling.yarn_beta_slow", 0.25)
    writer.add_float32("mistral3.attention.temperature_scale", 0.3)
    writer.add_layer_norm_rms_eps(1e-5)
    byte_level_vocabulary(writer)
    writer.add_tensor("token_embd.weight", draws.matrix(V, E, gain=8))
    writer.add_tensor("output.weight", draws.matrix(V, E, gain=3))
    writer.add_tensor("output_norm.weight", draws.norm(E))
    for i in range(layers):
        _attention(writer, draws, f"blk.{i}", heads * d, kv_heads * d, gain=1.3)
        _feed_forward(writer, draws, f"blk.{i}", f)


def _gemma3(writer: gguf.GGUFWriter) -> None:
    draws, layers, heads, kv_heads, d, f = Draws(2), 7, 4, 1, 32, 96
    _sizes(writer, layers, heads, kv_heads, f)
    writer.add_key_length(d)
    writer.add_value_length(d)
    writer.add_sliding_window(8)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_final_logit_softcapping(8.0)
    _sentencepiece_vocabulary(writer)
    writer.add_tensor("token_embd.weight", draws.matrix(V, E, gain=4))
    writer.add_tensor("output_norm.weight", draws.norm(E))
    for i in range(layers):
        _attention(writer, draws, f"blk.{i}", heads * d, kv_heads * d, gain=1.0)
        _feed_forward(writer, draws, f"blk.{i}", f)
        for name, size in (
            ("attn_q_norm", d),
            ("attn_k_norm", d),
            ("post_attention_norm", E),
            ("post_ffw_norm", E),
        ):
            writer.add_tensor(f"blk.{i}.{name}.weight", draws.norm(size))


def _sizes(writer: gguf.GGUFWriter, layers: int, heads: int, kv_heads: int, f: int) -> None:
    writer.add_name("tiny")
    writer.add_context_length(256)
    writer.add_embedding_length(E)
    writer.add_block_count(layers)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_feed_forward_length(f)


def _attention(
    writer: gguf.GGUFWriter, draws: Draws, block: str, q: int, kv: int, gain: float
) -> None:
    writer.add_tensor(f"{block}.attn_norm.weight", draws.norm(E))
    writer.add_tensor(f"{block}.attn_q.weight", draws.matrix(q, E, gain))
    writer.add_tensor(f"{block}.attn_k.weight", draws.matrix(kv, E, gain))
    writer.add_tensor(f"{block}.attn_v.weight", draws.matrix(kv, E))
    writer.add_tensor(f"{block}.attn_output.weight", draws.matrix(E, q))


def _feed_forward(writer: gguf.GGUFWriter, draws: Draws, block: str, f: int) -> None:
    writer.add_tensor(f"{block}.ffn_norm.weight", draws.norm(E))
    writer.add_tensor(f"{block}.ffn_gate.weight", draws.matrix(f, E))
    writer.add_tensor(f"{block}.ffn_up.weight", draws.matrix(f, E))
    writer.add_tensor(f"{block}.ffn_down.weight", draws.matrix(E, f))


def byte_level_vocabulary(writer: gguf.GGUFWriter) -> None:
    """Four special tokens, one a byte, and merges of lower-case pairs."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]
    # Byte-level BPE shows bytes that do not print as the code points from 256 up.
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in printed]
    shown = {b: chr(b) for b in printed} | {b: chr(256 + i) for i, b in enumerate(hidden)}
    single = [shown[b] for b in range(256)]
    left = ["Ġ", "t", "h", "e", "a", "o"]
    pairs = [(a, b) for a in left for b in "thaeionsrl" if (a, b) != ("t", "t")]
    merges = [f"{a} {b}" for a, b in pairs][:57] + ["th e", "Ġ the", "Ġt o"]
    tokens = special + single + [m.replace(" ", "") for m in merges]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL] * 4 + [gguf.TokenType.NORMAL] * (V - 4))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(3)
    writer.add_add_bos_token(False)


def _sentencepiece_vocabulary(writer: gguf.GGUFWriter) -> None:
    """Padding, end, begin, unknown, one token a byte, letters, digits and a few words."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>"]
    single = [f"<0x{b:02X}>" for b in range(256)]
    words = ["▁the", "▁t", "he", "th", "▁a", "an", "in", "▁to", "er", "on", "re", "▁of"]
    pieces = (words + ["▁", *"etaoinshrdlucmfwypvbgkjqxz", *"0123456789", *".,!?'-:;()\n"])[
        : V - 260
    ]
    kinds = [gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.UNKNOWN]
    kinds += [gguf.TokenType.BYTE] * 256 + [gguf.TokenType.NORMAL] * len(pieces)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(special + single + pieces)
    writer.add_token_scores([0.0] * 260 + [-float(i) for i in range(len(pieces))])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(3)
    writer.add_pad_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)


# A row for each architecture: every test of tiny models takes them all.
WRITERS: Mapping[str, Callable[[gguf.GGUFWriter], None]] = {
    "llama": _llama,
    "gemma3": _gemma3,
    "mistral3": _mistral3,
}
ARCHITECTURES = tuple(WRITERS)
