"""What every architecture offers to the runner."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from engine.graph.tensor import Tensor
from engine.layers.rope import RopeParams
from engine.layers.step import LayerCache, Pass


@dataclass(frozen=True)
class CacheShape:
    """A layer's cache: row sizes of a head's key and value, heads, visible tokens (None: all), and
    the rope its keys carry, for shifting them.
    """

    key_dim: int
    value_dim: int
    heads: int
    window: int | None
    rope: RopeParams


class TextModel(Protocol):
    """A bound architecture. `constants` are small tensors read on the host while it is made."""

    params: Any
    weights: Any

    def __init__(self, params: Any, weights: Any, constants: Mapping[str, object]) -> None: ...

    def caches(self) -> list[CacheShape]:
        """One shape a layer."""
        ...

    def forward(self, p: Pass, caches: list[LayerCache]) -> Tensor:
        """Logits f32 [V, n_outputs]."""
        ...
