"""Leaf layers: each owns only its weights."""

from dataclasses import dataclass
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.weights.bind import Name


@dataclass(frozen=True)
class Linear:
    """weight [in, out], bias [out] or none; `scale` [1] belongs to four-bit floats."""

    weight: Annotated[Tensor, Name("weight")]
    bias: Annotated[Tensor | None, Name("bias")]
    scale: Annotated[Tensor | None, Name("scale")]

    def __call__(self, x: Tensor, name: str = "", layer: int | None = None) -> Tensor:
        """x [in, T] -> [out, T]."""
        y = ops.matmul(self.weight, x)
        if name:
            y = y.named(name, layer)
        if self.scale is not None:
            y = ops.mul(y, self.scale)
        if self.bias is not None:
            y = ops.add(y, self.bias)
        return y.named(name, layer) if name else y


@dataclass(frozen=True)
class RMSNorm:
    """weight [E]."""

    weight: Annotated[Tensor, Name("weight")]

    def __call__(self, x: Tensor, eps: float, name: str, layer: int | None = None) -> Tensor:
        """x [E, ...], normalised over E."""
        return ops.rms_norm(x, self.weight, eps).named(name, layer)


@dataclass(frozen=True)
class UnsuffixedNorm(RMSNorm):
    """The same, where the tensor's name has no "weight" at its end (PLaMo 2 and 3)."""

    weight: Tensor


@dataclass(frozen=True)
class LayerNorm(RMSNorm):
    """weight [E], bias [E] or none: also less the mean."""

    bias: Annotated[Tensor | None, Name("bias")]

    def __call__(self, x: Tensor, eps: float, name: str, layer: int | None = None) -> Tensor:
        """x [E, ...], normalised over E."""
        return ops.layer_norm(x, self.weight, self.bias, eps).named(name, layer)


def weightless(x: Tensor, eps: float, name: str, layer: int | None = None) -> Tensor:
    """x [E, ...] over its root mean square over E."""
    return ops.rms_norm(x, None, eps).named(name, layer)


@dataclass(frozen=True)
class BareLayerNorm:
    """Without weights."""

    def __call__(self, x: Tensor, eps: float, name: str, layer: int | None = None) -> Tensor:
        """x [E, ...], normalised over E."""
        return ops.layer_norm(x, None, None, eps).named(name, layer)


@dataclass(frozen=True)
class Embedding:
    """weight [E, V]."""

    weight: Annotated[Tensor, Name("weight")]

    def __call__(self, ids: Tensor) -> Tensor:
        """ids i32 [T] -> f32 [E, T]."""
        return ops.rows(self.weight, ids).named("embd")


def heads_of(part: Tensor, dim: int) -> Tensor:
    """Columns [dim * H, T] of something larger as [dim, H, T]."""
    shape = (dim, part.shape[0] // dim, part.shape[1])
    return part.view(0, shape, (part.fmt.row_bytes(dim), part.strides[1]))
