"""Random LoRA adapters for a model's file, and the same merged into it in float64."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy as np
from numpy.typing import NDArray

from engine.gguf import open_gguf
from tests.gguf_files import Blocks, drafted
from tests.goldens.tiny import Draws, write_tiny

Floats = NDArray[np.float64]
TABLES = ("token_embd.weight",)
PEER_SCALE, PEER_EACH = 0.5, 5
"""Of the golden that llama.cpp made: the adapter's scale, and every which token has logits."""


class Halves(NamedTuple):
    """In NumPy's order: a [.., r, in], b [.., out, r]; of a table [V, E] a [V, r], b [E, r]."""

    a: Floats
    b: Floats
    is_table: bool

    @property
    def product(self) -> Floats:
        """What is added to the matrix, times alpha / r."""
        product: Floats = self.a @ self.b.T if self.is_table else self.b @ self.a
        return product


def architecture(path: Path) -> str:
    """The one that the model's file names."""
    with open_gguf(path) as file:
        return file.metadata.architecture


def matrices(path: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of what has two dimensions or three, in NumPy's order."""
    with open_gguf(path) as file:
        return {n: t.shape[: t.n_dims][::-1] for n, t in file.tensors.items() if t.n_dims > 1}


def drawn(shapes: Mapping[str, tuple[int, ...]], rank: int = 4, seed: int = 1) -> dict[str, Halves]:
    """Random halves for matrices, which float16 holds, the same in every NumPy."""
    draws = Draws(seed)
    found = {}
    for name, (*more, out, inner) in shapes.items():
        is_table = name.endswith(TABLES)
        first = (out, rank) if is_table else (*more, rank, inner)
        second = (inner, rank) if is_table else (*more, out, rank)
        a = draws.uniform(*first) * np.sqrt(3 / (rank if is_table else inner))
        b = draws.uniform(*second) * np.sqrt(3)
        found[name] = Halves(a.astype("f2").astype("f8"), b.astype("f2").astype("f8"), is_table)
    return found


def write_adapter(
    path: Path,
    architecture: str,
    halves: Mapping[str, Halves],
    alpha: float | None = 8.0,
    metadata: Mapping[str, str] | None = None,
    kind: Any = np.float32,
) -> Path:
    """A file as llama.cpp's converter writes it."""
    writer = gguf.GGUFWriter(path, architecture)
    texts = {"general.type": "adapter", "adapter.type": "lora", **(metadata or {})}
    for key, text in texts.items():
        writer.add_string(key, text)
    if alpha is not None:
        writer.add_float32("adapter.lora.alpha", alpha)
    for name, one in halves.items():
        writer.add_tensor(f"{name}.lora_a", one.a.astype(kind))
        writer.add_tensor(f"{name}.lora_b", one.b.astype(kind))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def merged(path: Path, to: Path, parts: Collection[tuple[Mapping[str, Halves], float]]) -> Path:
    """The model's file with the products of several adapters times their factors added, in F32."""
    with open_gguf(path) as file:
        draft = drafted(file)
        for name in {name for halves, _ in parts for name in halves}:
            values = file.array(name).astype(np.float64)
            for halves, factor in parts:
                if name in halves:
                    values = values + factor * halves[name].product
            dims = values.shape[::-1]
            draft.tensors[name] = Blocks(0, dims, values.astype("<f4").tobytes())
    return draft.write(to)


def write_pair(folder: Path) -> tuple[Path, Path]:
    """The tiny llama model's file and that of an adapter for all its matrices, of alpha 8."""
    model = write_tiny(folder / "base.gguf", "llama")
    return model, write_adapter(folder / "adapter.gguf", "llama", drawn(matrices(model)), 8.0)
