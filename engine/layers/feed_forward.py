"""Feed-forwards of a block: gated (Shazeer 2020) from two matrices or one, and plain.

All are called alike, those with experts (experts.py) too, so that a block takes any of them.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.linear import Linear
from engine.layers.spec import BlockSpec
from engine.weights.bind import Name


@dataclass(frozen=True)
class FeedForward:
    """down(act(gate(x)) * up(x))."""

    gate: Annotated[Linear, Name("ffn_gate")]
    up: Annotated[Linear, Name("ffn_up")]
    down: Annotated[Linear, Name("ffn_down")]

    def __call__(self, x: Tensor, i: int, spec: BlockSpec) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        gate, up = self.gate(x, "ffn_gate", i), self.up(x, "ffn_up", i)
        mixed = spec.gated.activation(gate, up).named(spec.gated.name, i)
        return self.down(mixed, "ffn_out", i)


@dataclass(frozen=True)
class FusedFeedForward:
    """Like `FeedForward`; the rows of `up` are the gate's, then up's."""

    up: Annotated[Linear, Name("ffn_up")]
    down: Annotated[Linear, Name("ffn_down")]

    def __call__(self, x: Tensor, i: int, spec: BlockSpec) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        both = self.up(x, "ffn_up", i)
        gate, up = ops.chunk_sections(both, 0, [both.shape[0] // 2] * 2)
        mixed = spec.gated.activation(gate, up).named(spec.gated.name, i)
        return self.down(mixed, "ffn_out", i)


@dataclass(frozen=True)
class PlainFeedForward:
    """down(act(up(x)))."""

    up: Annotated[Linear, Name("ffn_up")]
    down: Annotated[Linear, Name("ffn_down")]

    def __call__(self, x: Tensor, i: int, spec: BlockSpec) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        up = self.up(x, "ffn_up", i)
        return self.down(spec.gated.activation(up, None).named(spec.gated.name, i), "ffn_out", i)
