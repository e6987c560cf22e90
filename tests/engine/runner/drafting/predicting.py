"""Tiny random models with a block that predicts further tokens, and what such a block computes."""

from pathlib import Path

import gguf
import numpy as np
from gguf import GGUFReader, GGUFWriter

from tests.engine.models.text.files import write
from tests.engine.models.text.rows import ROWS

FEW = (5, 11)
"""Tokens of which a block with an output matrix of its own predicts one, nearly always."""


def with_block(folder: Path, name: str, own: bool = True, like: int | None = None) -> Path:
    """The table's row with one block more, which is `like` one that attends, by default the last;
    it has an embedding, a norm and an output matrix of its `own`, or the model's.
    """
    plain = write(ROWS[name], folder)
    reader = GGUFReader(plain)
    arch = reader.fields["general.architecture"].contents()
    path = folder / f"{name}-mtp{own:d}.gguf"
    writer = GGUFWriter(path, arch)
    tensors = {t.name: np.array(t.data) for t in reader.tensors}
    n = int(reader.fields[f"{arch}.block_count"].contents())
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        value = field.contents()
        if key == f"{arch}.block_count":
            value = n + 1
        element = field.types[-1] if len(field.types) > 1 else None
        if key.startswith(f"{arch}.attention.") and isinstance(value, list):  # by layer
            value = [*value, value[-1]]
        writer.add_key_value(key, value, field.types[0], element)
    writer.add_uint32(f"{arch}.nextn_predict_layers", 1)
    random = np.random.default_rng(7)
    width, vocabulary = tensors["token_embd.weight"].shape[::-1]

    def matrix(rows: int, columns: int, gain: float) -> np.ndarray:
        return (random.standard_normal((rows, columns)) * gain / columns**0.5).astype(np.float32)

    def norm() -> np.ndarray:
        return (1 + random.standard_normal(width) / 4).astype(np.float32)

    attends = [i for i in range(n) if f"blk.{i}.attn_output.weight" in tensors]
    last = attends[-1] if like is None else like
    for key, values in list(tensors.items()):
        if key.startswith(f"blk.{last}."):
            scale = 1 + random.standard_normal(values.shape) / 8
            tensors[key.replace(f"blk.{last}.", f"blk.{n}.")] = (values * scale).astype(np.float32)
    tensors[f"blk.{n}.nextn.eh_proj.weight"] = matrix(width, 2 * width, 1.4)
    tensors[f"blk.{n}.nextn.enorm.weight"] = norm()
    tensors[f"blk.{n}.nextn.hnorm.weight"] = norm()
    if own:
        tensors[f"blk.{n}.nextn.embed_tokens.weight"] = matrix(vocabulary, width, width**0.5)
        tensors[f"blk.{n}.nextn.shared_head_norm.weight"] = norm()
        head = matrix(vocabulary, width, 3)
        head[[i for i in range(vocabulary) if i not in FEW]] /= 100
        tensors[f"blk.{n}.nextn.shared_head_head.weight"] = head
    for key, values in tensors.items():
        writer.add_tensor(key, values, raw_dtype=gguf.GGMLQuantizationType.F32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


class Published:
    """What the block of a GLM-4.5 file computes, in float64: one like its dense layers, as the
    definition in DeepSeek-V3 (section 2.2) and Glm4MoeDecoderLayer of transformers have it.
    """

    def __init__(self, path: Path) -> None:
        reader = GGUFReader(path)
        self._tensors = {t.name: np.array(t.data, np.float64) for t in reader.tensors}
        fields = {key: field.contents() for key, field in reader.fields.items()}
        self._number = {key.removeprefix("glm4moe."): value for key, value in fields.items()}
        self._block = self._number["block_count"] - 1

    def __call__(
        self, hidden: np.ndarray, following: list[int], first: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Logits [T, V] and states [T, E] of hidden states [T, E], each with the token behind it,
        at the positions from `first` on.
        """
        embedding = self._own("nextn.embed_tokens.weight", "token_embd.weight")[following]
        e = self._normed(embedding, self._own("nextn.enorm.weight"))
        h = self._normed(hidden, self._own("nextn.hnorm.weight"))
        x = np.concatenate([e, h], 1) @ self._own("nextn.eh_proj.weight").T
        x = x + self._attention(self._normed(x, self._own("attn_norm.weight")), first)
        y = self._normed(x, self._own("post_attention_norm.weight"))
        gate, up = (y @ self._own(f"ffn_{name}.weight").T for name in ("gate", "up"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ self._own("ffn_down.weight").T
        states = self._normed(x, self._own("nextn.shared_head_norm.weight", "output_norm.weight"))
        return states @ self._own("nextn.shared_head_head.weight", "output.weight").T, states

    def _own(self, name: str, other: str = "") -> np.ndarray:
        return self._tensors.get(f"blk.{self._block}.{name}", self._tensors.get(other, np.zeros(0)))

    def _normed(self, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        eps = self._number["attention.layer_norm_rms_epsilon"]
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight

    def _attention(self, x: np.ndarray, first: int) -> np.ndarray:
        n, size = len(x), self._number["attention.key_length"]
        q, k, v = (
            (x @ self._own(f"attn_{name}.weight").T + self._own(f"attn_{name}.bias")).reshape(
                n, -1, size
            )
            for name in "qkv"
        )
        q = self._turned(self._normed(q, self._own("attn_q_norm.weight")), first)
        k = self._turned(self._normed(k, self._own("attn_k_norm.weight")), first)
        shared = q.shape[1] // k.shape[1]
        k, v = np.repeat(k, shared, 1), np.repeat(v, shared, 1)
        scores = np.einsum("thd,shd->hts", q, k) / size**0.5
        scores[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        mixed = np.einsum("hts,shd->thd", weights, v).reshape(n, -1)
        return mixed @ self._own("attn_output.weight").T

    def _turned(self, x: np.ndarray, first: int) -> np.ndarray:
        """The first channels of each head turn, in halves."""
        half = self._number["rope.dimension_count"] // 2
        speeds = self._number["rope.freq_base"] ** (-np.arange(half) / half)
        angles = (first + np.arange(len(x)))[:, None, None] * speeds
        a, b = x[..., :half], x[..., half : 2 * half]
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., 2 * half :]], -1)
