"""Short convolutions over time: alone as a mixer, and in front of other recurrences."""

from dataclasses import dataclass
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.linear import Linear
from engine.layers.spec import BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.weights.bind import Name


@dataclass(frozen=True)
class Convolution:
    """weight [Kc, C], bias [C] or none: each channel's last Kc inputs, weighted."""

    weight: Annotated[Tensor, Name("weight")]
    bias: Annotated[Tensor | None, Name("bias")]

    def __call__(self, x: Tensor, i: int, p: Pass, silu: bool, name: str) -> Tensor:
        """x [C, T] -> [C, T] in layer i, which keeps the last Kc - 1 columns."""
        state = p.state(i).conv
        assert state is not None
        mixed = ops.causal_conv(x, self.weight, self.bias, state, p.state_at, silu=silu)
        return p.carry(mixed, state).named(name, i)


@dataclass(frozen=True)
class ShortConv:
    """out(c * conv(b * x)), b, c and x being parts of one product (Hasani et al. 2025, LFM2)."""

    into: Annotated[Linear, Name("shortconv.in_proj")]
    conv: Annotated[Convolution, Name("shortconv.conv")]
    out: Annotated[Linear, Name("shortconv.out_proj")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, block: BlockSpec, cache: LayerCache | None
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        parts = self.into(x, "shortconv.in_proj", i)
        b, c, given = ops.chunk_sections(parts, 0, [parts.shape[0] // 3] * 3)
        mixed = self.conv(ops.mul(b, given).named("shortconv.bx", i), i, p, False, "conv_out")
        return self.out(ops.mul(c, mixed).named("shortconv.y", i), "shortconv.out_proj", i)


def heads_of(part: Tensor, dim: int) -> Tensor:
    """Columns [dim * H, T] of something larger as [dim, H, T]."""
    shape = (dim, part.shape[0] // dim, part.shape[1])
    return part.view(0, shape, (part.fmt.row_bytes(dim), part.strides[1]))
