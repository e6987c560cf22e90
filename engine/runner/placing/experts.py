"""Experts leave a device before layers do: they are most of a model's bytes, and a token reads few.

The experts of the first layers go to the device that takes what others do not, as few of them as
that takes; attention, caches and what every token reads stay (llama.cpp's -ot exps=CPU).
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from engine.graph.tensor import Tensor
from engine.memory.fit import spans
from engine.models.build import BuiltModel
from engine.models.decoder import Decoder
from engine.units import MIB

_NAMED = re.compile(r"^blk\.\d+\.ffn_\w+_exps\.")


@dataclass(frozen=True)
class ExpertWeights:
    """Expert tensors by layer, for layers without a fixed placement, in order."""

    layers: Mapping[int, Sequence[Tensor]]
    n_layer: int

    @classmethod
    def of(
        cls, built: BuiltModel, fixed: Collection[int], pinned: Callable[[str], bool]
    ) -> "ExpertWeights":
        """Without layers in `fixed`, and without those of which a tensor is `pinned` by name."""
        found: dict[int, list[Tensor]] = {}
        for tensor, owner in built.owners.items():
            if owner.layer is not None and _NAMED.search(tensor.name):
                found.setdefault(owner.layer, []).append(tensor)
        free = {
            i: tensors
            for i, tensors in sorted(found.items())
            if i not in fixed and not any(pinned(t.name) for t in tensors)
        }
        return cls(free, built.n_layer)

    def pattern(self, count: int) -> str:
        """A regular expression for those of the first `count` layers."""
        layers = "|".join(map(str, list(self.layers)[:count]))
        return rf"^blk\.({layers})\.ffn_\w+_exps\."

    def moved(self, count: int, device: str, built: BuiltModel, all_fit: bool) -> str:
        """Why the experts of the first `count` layers are not with their layers."""
        layers = list(self.layers)[:count]
        size = sum(t.nbytes for i in layers for t in self.layers[i])
        what = f"{device} takes the experts of {spans(layers, self.n_layer)}, {size / MIB:.1f} MiB"
        why = "all else fits on faster devices" if all_fit else "fewer layers have to leave"
        return f"{what}, so that {why}: {_read(built, layers[0])}"


def fewest(count: int, enough: Callable[[int], bool]) -> int | None:
    """The least number from 1 to `count` that is enough, where more is never less; None: none."""
    if not enough(count):
        return None
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _read(built: BuiltModel, layer: int) -> str:
    model = built.model
    route = model.spec(layer).route if isinstance(model, Decoder) else None
    if route is None:
        return "a token reads few of them"
    return f"a token reads {route.used} of {route.experts} of them"
