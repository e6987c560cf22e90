"""Checks of operands' types that several families share."""

from engine.errors import NotSupported, ShapeError
from engine.gguf.dequantize import QUANTIZABLE
from engine.gguf.formats import BF16, F16, F32, Format
from engine.graph.tensor import Tensor

FLOATS = (F32, F16, BF16)


def check_floats(op: str, *operands: Tensor | None) -> None:
    """Raises `ShapeError` unless all that are there are f32, f16 or bf16."""
    present = [x for x in operands if x is not None]
    if any(x.fmt not in FLOATS for x in present):
        types = ", ".join(x.fmt.name for x in present)
        raise ShapeError(
            op, f"computes in F32, F16 or BF16, not {types}", *(x.shape for x in present)
        )


def check_matrix(op: str, a: Tensor) -> None:
    """Raises `ShapeError` unless `a` is floats or blocks."""
    if a.fmt not in FLOATS and not a.fmt.quantized:
        raise ShapeError(op, f"cannot read numbers of type {a.fmt}", a.shape)


def check_writable(op: str, source: Format, target: Format) -> None:
    """Raises `NotSupported` where values would have to be made into blocks that are only read."""
    if target.quantized and target not in QUANTIZABLE and source != target:
        raise NotSupported(f"{op} of {source} into {target}")
