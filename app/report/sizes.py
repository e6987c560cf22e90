"""Three models of random weights, to measure with: the same everywhere, and nothing is fetched.

Matrices are in the formats that most files have; words mean nothing. Weights neither grow nor
shrink what goes through them, so that all logits are finite.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod, sqrt
from os import truncate
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Format

ALIGNMENT = 32
LETTERS = "w0123456789\u0120"  # of which every text of words "w1 w2" is made; the last is a blank
CHUNK = 1 << 22  # bytes of blocks that are drawn; a matrix repeats them


@dataclass(frozen=True)
class Shape:
    """A model of the architecture llama. `like` names well-known models of that size."""

    name: str
    like: str
    embedding: int
    feed_forward: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    kind: Format

    def matrices(self) -> Iterator[tuple[str, tuple[int, ...], Format]]:
        """Name, NumPy shape and format of every tensor."""
        e, f = self.embedding, self.feed_forward
        kv = e // self.heads * self.kv_heads
        yield "token_embd.weight", (self.vocabulary, e), _OF_WORDS[self.kind]
        yield "output_norm.weight", (e,), Format.F32
        for i in range(self.layers):
            for name, shape in (("q", (e, e)), ("k", (kv, e)), ("v", (kv, e)), ("output", (e, e))):
                yield f"blk.{i}.attn_{name}.weight", shape, self.kind
            for name, shape in (("gate", (f, e)), ("up", (f, e)), ("down", (e, f))):
                yield f"blk.{i}.ffn_{name}.weight", shape, self.kind
            for name in ("attn_norm", "ffn_norm"):
                yield f"blk.{i}.{name}.weight", (e,), Format.F32

    @property
    def nbytes(self) -> int:
        """The bytes of all tensors."""
        return sum(
            prod(_in_bytes(size, kind)) * (4 if kind == Format.F32 else 1)
            for _, size, kind in self.matrices()
        )


_OF_WORDS = {Format.Q4_1: Format.Q4_1, Format.Q4_K: Format.Q6_K}
SHAPES = (
    Shape("135M Q4_1", "SmolLM2 135M", 576, 1536, 30, 9, 3, 49152, Format.Q4_1),
    Shape("0.6B Q4_K", "half of Llama 3.2 1B", 2048, 8192, 8, 32, 8, 32768, Format.Q4_K),
    Shape("1B Q4_K", "an eighth of Llama 3.1 8B", 4096, 14336, 4, 32, 8, 32768, Format.Q4_K),
)


LARGE = Shape("8B Q4_K", "Llama 3.1 8B", 4096, 14336, 32, 32, 8, 128256, Format.Q4_K)
"""Only for what has the memory of a GPU."""


def write(path: Path, shape: Shape) -> None:
    """The whole file; the same one each time. Raises OSError."""
    with _headed(path, shape) as writer:
        draws = np.random.default_rng(1)
        for _, size, kind in shape.matrices():
            writer.write_tensor_data(_drawn(size, kind, draws))


def write_header(path: Path, shape: Shape) -> None:
    """The file with a hole where its weights are. Raises OSError."""
    with _headed(path, shape):
        pass
    truncate(path, path.stat().st_size + shape.nbytes + ALIGNMENT * len(list(shape.matrices())))


@contextmanager
def _headed(path: Path, shape: Shape) -> Iterator[gguf.GGUFWriter]:
    """A writer that has written everything before the weights."""
    writer = gguf.GGUFWriter(path, "llama")
    _metadata(writer, shape)
    for name, size, kind in shape.matrices():
        in_bytes = _in_bytes(size, kind)
        nbytes, item = prod(in_bytes), np.dtype(np.float32 if kind == Format.F32 else np.uint8)
        writer.add_tensor_info(name, in_bytes, item, nbytes * item.itemsize, kind)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        yield writer
    finally:
        writer.close()


def _metadata(writer: gguf.GGUFWriter, shape: Shape) -> None:
    writer.add_name(shape.name)
    writer.add_context_length(4096)
    writer.add_embedding_length(shape.embedding)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_block_count(shape.layers)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    words = [*LETTERS, *(f"w{i}" for i in range(shape.vocabulary - len(LETTERS)))]
    writer.add_token_list(words)
    writer.add_token_types([1] * shape.vocabulary)
    writer.add_token_merges(["w 0"])


def _in_bytes(size: tuple[int, ...], kind: Format) -> tuple[int, ...]:
    """The shape as blocks lie, the last axis in bytes; of floats as it is."""
    if kind == Format.F32:
        return size
    weights, nbytes = gguf.GGML_QUANT_SIZES[kind]
    return (*size[:-1], size[-1] // weights * nbytes)


def _drawn(size: tuple[int, ...], kind: Format, draws: np.random.Generator) -> np.ndarray:
    if kind == Format.F32:
        return np.ones(size, np.float32)
    weights, nbytes = gguf.GGML_QUANT_SIZES[kind]
    n = prod(size) // weights
    few = _blocks(min(n, CHUNK // nbytes), kind, 0.6 / sqrt(size[-1]), draws)
    return np.resize(few, (n, nbytes)).reshape(_in_bytes(size, kind))


def _blocks(n: int, kind: Format, gain: float, draws: np.random.Generator) -> np.ndarray:
    """Random bits, with the one or two halves that scale them set: `gain` is the deviation."""
    blocks = draws.integers(0, 256, (n, gguf.GGML_QUANT_SIZES[kind][1]), np.uint8)
    if kind == Format.Q6_K:  # the deviation of scale by quant is 1370
        blocks[:, 208:] = _halves(gain / 1370)
    elif kind == Format.Q4_K:  # 258 is that of scale by quant less 7.5 times the minimum
        blocks[:, :4] = _halves(gain / 258, 7.5 * gain / 258)
    else:  # Q4_1: quants of 4.6 about 7.5
        blocks[:, :4] = _halves(gain / 4.6, -7.5 * gain / 4.6)
    return blocks


def _halves(*values: float) -> np.ndarray:
    return np.array(values, "<f2").view(np.uint8)
