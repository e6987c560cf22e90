"""The gated feed-forward of a block (Shazeer 2020)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from engine.graph.tensor import Tensor
from engine.layers.linear import Linear
from engine.weights.bind import Name

Gated = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class FeedForward:
    """down(act(gate(x)) * up(x))."""

    gate: Annotated[Linear, Name("ffn_gate")]
    up: Annotated[Linear, Name("ffn_up")]
    down: Annotated[Linear, Name("ffn_down")]

    def __call__(self, x: Tensor, i: int, activation: Gated, name: str) -> Tensor:
        """x [E, T] -> [E, T]; `activation(gate, up)` is called `name`."""
        gate, up = self.gate(x, "ffn_gate", i), self.up(x, "ffn_up", i)
        return self.down(activation(gate, up).named(name, i), "ffn_out", i)
