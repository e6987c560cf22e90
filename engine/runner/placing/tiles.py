"""Parts of each layer by device: bytes, patterns to move them, and descriptions."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from os.path import commonprefix

from engine.device.backend import KEPT, Component
from engine.graph.tensor import Tensor
from engine.layers.experts import ExpertLinear
from engine.models.build import BuiltModel
from engine.models.decoder import Decoder
from engine.models.kept import (
    Borrowed,
    Both,
    Cells,
    Chunk,
    Crossed,
    Encoded,
    Kept,
    Latent,
    Nothing,
    State,
)
from engine.protocol import PartName, Tile
from engine.runner.placing.dry_run import DryRun

Part = tuple[int, PartName]


class Parts:
    """Which part of its layer each weight belongs to, and the pattern of each part."""

    def __init__(self, built: BuiltModel) -> None:
        self.of: dict[Tensor, Part] = {
            tensor: (owner.layer, "vision" if owner.component is Component.VISION else "other")
            for tensor, owner in built.owners.items()
            if owner.layer is not None
        }
        experts: dict[int, int] = {}
        for layer, block in enumerate(built.model.weights.blocks):
            for tensor, name in _parts_of(block):
                self.of[tensor] = layer, name
                if name == "experts":
                    experts[layer] = max(experts.get(layer, 0), tensor.shape[2])
        for adapter in built.adapters:
            for matrix, pair in adapter.pairs.items():
                part = self.of.get(matrix)
                self.of |= {t: part for t in (pair.a, pair.b) if part and t in self.of}
        names: dict[Part, list[str]] = defaultdict(list)
        for tensor, part in self.of.items():
            names[part].append(tensor.name)
        everything = [tensor.name for tensor in self.of]
        self.patterns = {part: _pattern(mine, everything) for part, mine in names.items()}
        self.labels = _labels(built, experts)


def tiles(dry: DryRun, parts: Parts) -> list[Tile]:
    """One for each part of a layer and device that has something of it, in order of layers."""
    allocated: dict[tuple[int, str, PartName], int] = defaultdict(int)
    mapped: dict[tuple[int, str, PartName], int] = defaultdict(int)
    for one in (*dry.weights, *dry.caches):
        for tensor, size in one.tensors:
            if one.owner.component in KEPT:
                assert one.owner.layer is not None
                allocated[one.owner.layer, one.backend.name, "cache"] += size
            elif tensor in parts.of:
                layer, part = parts.of[tensor]
                allocated[layer, one.backend.name, part] += size
    for tensor, _ in dry.mapped:
        if tensor in parts.of:
            layer, part = parts.of[tensor]
            mapped[layer, dry.backends[-1].name, part] += tensor.nbytes
    keys = sorted({*allocated, *mapped}, key=lambda key: key[0])
    return [
        Tile(*key, allocated[key], mapped[key], parts.patterns.get((key[0], key[2]), ""))
        for key in keys
    ]


def _parts_of(block: object) -> Iterator[tuple[Tensor, PartName]]:
    """The weights of a block: its feed-forward's are the fields whose names begin so."""
    assert is_dataclass(block)
    for field in fields(block):
        part: PartName = "feed_forward" if field.name.startswith("ffn") else "attention"
        for tensor, is_expert in _weights(getattr(block, field.name)):
            yield tensor, "experts" if is_expert else part


def _weights(value: object, is_expert: bool = False) -> Iterator[tuple[Tensor, bool]]:
    if isinstance(value, Tensor):
        yield value, is_expert
    elif is_dataclass(value):
        for field in fields(value):
            inside = is_expert or isinstance(value, ExpertLinear)
            yield from _weights(getattr(value, field.name), inside)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _weights(one, is_expert)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for one in value:
            yield from _weights(one, is_expert)


def _pattern(mine: Sequence[str], everything: Iterable[str]) -> str:
    """The shortest of some regular expressions that match these names and no other."""
    wanted = set(mine)
    shared = commonprefix(list(mine))
    layer = shared[: shared.rfind(".") + 1]  # blk.3.
    words = sorted({name[len(layer) :].split(".")[0] for name in mine})
    tried = [f"^{re.escape(shared)}", rf"^{re.escape(layer)}({'|'.join(map(re.escape, words))})\."]
    for pattern in tried:
        if {name for name in everything if re.search(pattern, name)} == wanted:
            return pattern
    return f"^({'|'.join(map(re.escape, sorted(wanted)))})$"


def _labels(built: BuiltModel, experts: Mapping[int, int]) -> list[list[str]]:
    """Words for what makes a layer unlike others, the output block's last."""
    kept = built.model.kept()
    words = [_word(shape) for shape in kept]
    labels = [[word] if word and len(set(words)) > 1 else [] for word in words]
    for layer, count in experts.items():
        model = built.model
        route = model.spec(layer).route if isinstance(model, Decoder) else None
        labels[layer].append(f"{route.used} of {count} experts" if route else f"{count} experts")
    return [*labels, []]


def _word(shape: Kept) -> str:
    match shape:
        case Cells(window=None):
            return "global"
        case Cells(window=window):
            return f"window {window}"
        case Chunk(size=size):
            return f"chunk {size}"
        case Latent():
            return "latent"
        case Borrowed(layer=layer):
            return f"reads the cache of layer {layer}"
        case State():
            return "recurrent"
        case Crossed():
            return "global and encoded"
        case Both():
            return "attention in parallel with a recurrence"
        case Encoded():
            return "attends to pictures"
        case Nothing():
            return "no cache"
