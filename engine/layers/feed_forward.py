"""The gated feed-forward of a block (Shazeer 2020)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.linear import Linear
from engine.weights.bind import Name


@dataclass(frozen=True)
class GatedActivation:
    """An activation of gate and up, f32 [F, T] each, and what its result is called."""

    activation: Callable[[Tensor, Tensor], Tensor]
    name: str


SWIGLU = GatedActivation(ops.silu, "ffn_swiglu")
GEGLU = GatedActivation(ops.gelu, "ffn_geglu")


@dataclass(frozen=True)
class FeedForward:
    """down(act(gate(x)) * up(x))."""

    gate: Annotated[Linear, Name("ffn_gate")]
    up: Annotated[Linear, Name("ffn_up")]
    down: Annotated[Linear, Name("ffn_down")]

    def __call__(self, x: Tensor, i: int, gated: GatedActivation) -> Tensor:
        """x [E, T] -> [E, T] in layer i."""
        gate, up = self.gate(x, "ffn_gate", i), self.up(x, "ffn_up", i)
        return self.down(gated.activation(gate, up).named(gated.name, i), "ffn_out", i)
