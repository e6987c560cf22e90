"""A placement as a person edits it: the device of each layer, and weights elsewhere by pattern."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile

Override = tuple[str, str]
"""A pattern of weights' names, and the device of what it matches."""

_OF_LAYER = re.compile(r"(.*?blk\\\.)(\d+)(\\\..*)", re.DOTALL)
_OF_LAYERS = re.compile(r"(.*?blk\\\.)\((\d+(?:\|\d+)+)\)(\\\..*)", re.DOTALL)


@dataclass(frozen=True)
class EditedPlacement:
    """`layers[i]` is the device of layer i, the last one the output block's.

    Of `overrides` the first pattern that matches counts; each names the weights of one layer where
    it was made here.
    """

    layers: tuple[str, ...]
    overrides: tuple[Override, ...] = ()

    @classmethod
    def of(cls, layers: Iterable[str], overrides: Iterable[Override]) -> "EditedPlacement":
        """Make a placement from an engine's answer; a pattern over several layers is split into one
        per layer.
        """
        return cls(tuple(layers), tuple(one for both in overrides for one in _apart(*both)))

    @property
    def n_layer(self) -> int:
        """Layers without the output block."""
        return len(self.layers) - 1

    def rule(self) -> str:
        """The same as `--place` reads it."""
        runs = [_run(first, last, device) for first, last, device in self.runs()]
        parts = [*runs, f"out={self.layers[-1]}"]
        return ", ".join([*parts, *(f"{p}={device}" for p, device in _together(self.overrides))])

    def runs(self) -> Iterator[tuple[int, int, str]]:
        """First and last layer of each run on one device; the output block is not among them."""
        for device, group in groupby(range(self.n_layer), self.layers.__getitem__):
            run = list(group)
            yield run[0], run[-1], device

    def with_layers(self, layers: Collection[int], device: str) -> "EditedPlacement":
        """These layers on that device; what patterns have put elsewhere stays there."""
        moved = tuple(device if i in layers else now for i, now in enumerate(self.layers))
        return replace(self, layers=moved)._without_idle()

    def with_part(self, pattern: str, layer: int, device: str) -> "EditedPlacement":
        """The weights of a layer that `pattern` names, on that device."""
        others = tuple(one for one in self.overrides if one[0] != pattern)
        return replace(self, overrides=_sorted(((pattern, device), *others)))._without_idle()

    def _without_idle(self) -> "EditedPlacement":
        """Without patterns of one layer that send its weights where the layer is, unless others
        might send them elsewhere.
        """
        found = [_OF_LAYER.fullmatch(pattern) for pattern, _ in self.overrides]
        if None in found:
            return self
        kept = (
            (pattern, device)
            for (pattern, device), own in zip(self.overrides, found, strict=True)
            if own is not None and not self._is_home(int(own[2]), device)
        )
        return replace(self, overrides=tuple(kept))

    def _is_home(self, layer: int, device: str) -> bool:
        return layer < self.n_layer and self.layers[layer] == device

    def with_boundary(self, at: int, to: int) -> "EditedPlacement":
        """The boundary before layer `at`, between two runs, moved to before layer `to`."""
        first, last = self.neighbours(at)
        to = min(max(to, first), last + 1)
        if to < at:
            return self.with_layers(range(to, at), self.layers[at])
        return self.with_layers(range(at, to), self.layers[at - 1])

    def neighbours(self, at: int) -> tuple[int, int]:
        """First and last layer of the two runs that meet before layer `at`."""
        first = next(a for a, b, _ in self.runs() if a <= at - 1 <= b)
        last = next(b for a, b, _ in self.runs() if a <= at <= b)
        return first, last

    def boundaries(self) -> list[int]:
        """The layers before which another device ends."""
        return [first for first, _, _ in self.runs() if first]


def spans(layers: Iterable[int]) -> str:
    """Layers in words: `0-11, 14`."""
    ordered = sorted(layers)
    runs = [[i for _, i in g] for _, g in groupby(enumerate(ordered), lambda at: at[1] - at[0])]
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)


def _sorted(overrides: Sequence[Override]) -> tuple[Override, ...]:
    """Alike ones side by side, up to the first that names more than one layer."""
    own = list(takewhile(lambda one: _OF_LAYER.fullmatch(one[0]) is not None, overrides))

    def place(one: Override) -> tuple[str, str, int]:
        found = _OF_LAYER.fullmatch(one[0])
        return (found[1] + found[3], one[1], int(found[2])) if found is not None else (*one, 0)

    return (*sorted(own, key=place), *overrides[len(own) :])


def _run(first: int, last: int, device: str) -> str:
    return f"{first}={device}" if first == last else f"{first}-{last}={device}"


def _together(overrides: Sequence[Override]) -> Iterator[Override]:
    """Neighbours that differ in the layer alone, as one pattern."""

    def alike(one: Override) -> tuple[str, ...]:
        found = _OF_LAYER.fullmatch(one[0])
        return (found[1], found[3], one[1]) if found is not None else one

    for key, group in groupby(overrides, alike):
        same = list(group)
        if len(key) < 3 or len(same) == 1:
            yield from same
            continue
        numbers = sorted({int(found[2]) for p, _ in same if (found := _OF_LAYER.fullmatch(p))})
        yield f"{key[0]}({'|'.join(map(str, numbers))}){key[1]}", key[2]


def _apart(pattern: str, device: str) -> Iterator[Override]:
    """The other way round."""
    found = _OF_LAYERS.fullmatch(pattern)
    if found is None:
        yield pattern, device
    else:
        yield from ((f"{found[1]}{n}{found[3]}", device) for n in found[2].split("|"))
