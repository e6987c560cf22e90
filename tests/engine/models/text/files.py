"""The files of the table: as they were converted, and with matrices of another type."""

import lzma
from functools import lru_cache
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind
from gguf.quants import dequantize, quantize

from tests.engine.models.text.rows import Row

GOLDENS = Path(__file__).parents[4] / "tests" / "goldens" / "text"
FLOATS_ONLY = (
    "_exps.bias",
    "exp_probs_b",
    *("ffn_gate_inp", "ssm_conv1d", "shortconv.conv", "ssm_a", "ssm_d", "altup_predict_coef"),
    *("token_types", "position_embd", "mix_lerp", "time_mix_first"),
    *("altup_correct_coef", "altup_router", "attn_q_norm", "attn_k_norm", "ssm_norm"),
    "attn_rel_b",
)
"""Parts of names of tensors that files keep in F32 whatever their shape."""


@lru_cache(maxsize=4)
def unpacked(row: Row) -> bytes:
    """The file in F32."""
    return lzma.decompress((GOLDENS / f"{row.name}.gguf.xz").read_bytes())


def golden(row: Row) -> tuple[np.ndarray, np.ndarray]:
    """Ids i32 [2, 96], and transformers' logits f32 [2, 96, V]."""
    with np.load(GOLDENS / f"{row.name}.npz") as arrays:
        return arrays["ids"], arrays["logits"]


def write(row: Row, folder: Path, kind: Kind = Kind.F32, rounded: Kind | None = None) -> Path:
    """The row's file with matrices of a type, or in F32 what another type makes of them."""
    path = folder / f"{row.name}-{kind.name}{'' if rounded is None else rounded.name}.gguf"
    plain = folder / f"{row.name}.gguf"
    plain.write_bytes(unpacked(row))
    if kind is Kind.F32 and rounded is None:
        return plain
    reader = gguf.GGUFReader(plain)
    writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            element = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(field.name, field.contents(), field.types[0], element)
    for tensor in reader.tensors:
        values, stored = np.array(tensor.data), rounded or kind
        size = gguf.GGML_QUANT_SIZES[stored][0]
        is_matrix = values.ndim > 1 and not any(part in tensor.name for part in FLOATS_ONLY)
        if not is_matrix or values.shape[-1] % size or tensor.tensor_type is not Kind.F32:
            writer.add_tensor(tensor.name, values, raw_dtype=tensor.tensor_type)
        elif rounded is None:
            writer.add_tensor(tensor.name, quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(tensor.name, dequantize(quantize(values, stored), stored))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
