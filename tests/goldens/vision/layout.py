"""A GGUF file before it is written: metadata, and float32 matrices under the file's names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFValueType

State = Mapping[str, np.ndarray]
"""Weights by their names in transformers' state dict."""

Names = Iterable[tuple[str, str]]
"""Pairs of a pattern that a whole name matches and what it becomes."""

PLAIN = (
    "position",
    "patch_",
    "pos_embed",
    "class_",
    "image_newline",
    "ffn_gate_inp",
    "resampler.query",
)
"""Parts of names that converters never quantise."""


@dataclass(frozen=True)
class File:
    """What is to be written. Integers become uint32, floats float32, lists arrays of these."""

    architecture: str
    metadata: Mapping[str, Any]
    tensors: State

    def write(self, path: Path, kind: Kind = Kind.F32) -> Path:
        """Write it with matrices of `kind`, where rows of a matrix are whole blocks."""
        writer = gguf.GGUFWriter(path, self.architecture)
        for key, value in self.metadata.items():
            writer.add_key_value(key, value, _type_of(value))
        for name, values in self.tensors.items():
            stored = _stored(name, values, kind)
            data = gguf.quants.quantize(np.ascontiguousarray(values, np.float32), stored)
            writer.add_tensor(name, data, raw_dtype=stored)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path


def renamed(state: State, names: Names) -> Iterator[tuple[str, np.ndarray]]:
    """Weights that a pattern of `names` matches (the first that does), by their new names."""
    table = [(re.compile(pattern), name) for pattern, name in names]
    for name, values in state.items():
        for pattern, new in table:
            if match := pattern.fullmatch(name):
                yield match.expand(new), values.astype(np.float32)
                break


def adjacent(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rows of each head from halves (i, i + d/2) to neighbours (2i, 2i + 1), as llama.cpp does."""
    pairs = rows.reshape(heads, 2, rows.shape[0] // heads // 2, -1)
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def _type_of(value: Any) -> GGUFValueType:
    if isinstance(value, list):
        return GGUFValueType.ARRAY
    if isinstance(value, int) and not isinstance(value, bool):
        return GGUFValueType.UINT32
    return GGUFValueType.get_type(value)


def _stored(name: str, values: np.ndarray, kind: Kind) -> Kind:
    if values.ndim < 2 or kind is Kind.F32:
        return Kind.F32
    block, _ = gguf.GGML_QUANT_SIZES[kind]
    if any(part in name for part in PLAIN) or values.shape[-1] % block:
        return Kind.F16
    return kind
