"""Placement as data: which device has which layer, and which weights lie elsewhere by name.

What a person writes, parts separated by commas, the later one counting where two name a layer:

    0-11=intel:0, 12=pocl:0, out=host    layers, and the output block
    0-11=intel:0, 12-=pocl:0             layers to the last one before the output block
    blk\\.\\d+\\.ffn_.*=host                weights whose name matches (llama.cpp's -ot)
    3,1                                  shares of all layers, device by device (llama.cpp's -ts)
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf

from engine.errors import BadSetting
from engine.patterns import placing

OUTPUT = ("out", "output")

_LAYERS = re.compile(r"(\d+)(?:(-)(\d*))?", re.ASCII)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_LLAMA_CPP = re.compile(r"(CPU|[A-Za-z]+)(\d{0,4})", re.ASCII)
_DIGITS = 4
"""Of a layer's number, at most."""


@dataclass(frozen=True)
class Pins:
    """A person's placements: layers, the output block, devices' shares, weights by name.

    A pair of `tails` places all layers from a number on. A later pair counts more than an earlier
    one, and `layers` count more than both.
    """

    layers: Mapping[int, str] = field(default_factory=dict)
    tails: tuple[tuple[int, str], ...] = ()
    output: str | None = None
    shares: tuple[float, ...] = ()
    patterns: tuple[tuple[str, str], ...] = ()

    @property
    def devices(self) -> list[str]:
        """Every device that is named, once."""
        pairs = (*self.tails, *self.patterns)
        named = [*self.layers.values(), *(device for _, device in pairs)]
        return list(dict.fromkeys([*named, *([self.output] if self.output else [])]))

    def spelled(self, device: Callable[[str], str]) -> "Pins":
        """The same with every device as `device` spells it."""
        return Pins(
            {i: device(name) for i, name in self.layers.items()},
            tuple((first, device(name)) for first, name in self.tails),
            device(self.output) if self.output else None,
            self.shares,
            tuple((pattern, device(name)) for pattern, name in self.patterns),
        )

    def of_layers(self, n_layer: int, devices: Sequence[str]) -> dict[int, str]:
        """The device of each fixed layer, the output block being `n_layer`.

        `devices` are those that shares count. Raises `BadSetting`.
        """
        named = [*self.layers, *(first for first, _ in self.tails)]
        beyond = [i for i in named if i >= n_layer]
        if beyond:
            expected = f"layers 0 to {n_layer - 1}, and out"
            raise BadSetting("--place", beyond[0], expected)
        fixed = self._by_shares(n_layer, devices) if self.shares else {}
        for first, device in self.tails:
            fixed |= dict.fromkeys(range(first, n_layer), device)
        fixed |= self.layers
        return fixed | ({n_layer: self.output} if self.output else {})

    def _by_shares(self, n_layer: int, devices: Sequence[str]) -> dict[int, str]:
        """Device by llama.cpp's --tensor-split: by the share that ends behind a layer's place."""
        if len(self.shares) > len(devices) or not 0 < sum(self.shares) < inf:
            expected = f"a share for each of {', '.join(devices)}, not all zero and not endless"
            raise BadSetting("--place", ",".join(f"{s:g}" for s in self.shares), expected)
        ends = [end / sum(self.shares) for end in accumulate(self.shares)]
        return {
            i: next(d for d, end in zip(devices, ends, strict=False) if end > i / (n_layer + 1))
            for i in range(n_layer + 1)
        }


@dataclass(frozen=True)
class Placement:
    """`layers[i]` is the device of layer i, its cache with it; the last is the output block's.

    A weight whose name a pattern of `overrides` matches lies where the first such says. `reasons`
    explain every automatic decision; layers in `requested` lie where a person wants them.
    """

    layers: tuple[str, ...]
    overrides: tuple[tuple[str, str], ...] = ()
    reasons: tuple[str, ...] = ()
    requested: frozenset[int] = frozenset()

    @property
    def n_layer(self) -> int:
        """Layers without the output block."""
        return len(self.layers) - 1

    def override(self, name: str) -> str | None:
        """Where a pattern sends a weight, if one does; an adapter's go with the matrix that they
        change.
        """
        matrix = name.partition(".lora_")[0]
        return next((d for pattern, d in self.overrides if placing(pattern).is_in(matrix)), None)

    def device_of(self, name: str, layer: int | None) -> str | None:
        """Where a weight of a layer lies; None for those of none, which the host reads in the
        file.
        """
        return None if layer is None else self.override(name) or self.layers[layer]


def parse_pins(text: str) -> Pins:
    """Parse a person's rule. Raises `BadSetting`."""
    layers: dict[int, str] = {}
    tails: list[tuple[int, str]] = []
    patterns: list[tuple[str, str]] = []
    shares: list[float] = []
    output = None
    for part in _parts(text) if text else ():
        key, equals, device = part.rpartition("=")
        span = _LAYERS.fullmatch(key)
        if not equals and _NUMBER.fullmatch(part) and not (layers or tails or patterns or output):
            shares.append(float(part))
        elif not (key and device):
            raise BadSetting("--place", part, "LAYERS=DEVICE, out=DEVICE, PATTERN=DEVICE or shares")
        elif span is not None:
            first, last = _span(part, span)
            if last is None:
                tails.append((first, device))
                layers = {i: name for i, name in layers.items() if i < first}
            else:
                layers |= dict.fromkeys(range(first, last + 1), device)
        elif key in OUTPUT:
            output = device
        else:
            patterns.append((_pattern(key), device))
    return Pins(layers, tuple(tails), output, tuple(shares), tuple(patterns))


def _span(part: str, span: "re.Match[str]") -> tuple[int, int | None]:
    """The first and the last layer of a part, None for a range without an end."""
    first, last = span[1], span[3] or span[1]
    if max(len(first), len(last)) > _DIGITS:
        raise BadSetting("--place", part, f"layers of at most {_DIGITS} digits")
    if int(last) < int(first):
        raise BadSetting("--place", part, "layers from the lower to the higher")
    return int(first), None if span[2] and not span[3] else int(last)


def spell(device: str, gpus: Sequence[str], cpu: str | None) -> str:
    """A device as `cutaway devices` spells it, also from llama.cpp's names (`CPU`, `CUDA0`)."""
    named = _LLAMA_CPP.fullmatch(device)
    if named is None or device == "host":
        return device
    if named[1] == "CPU" and cpu is not None:
        return cpu
    index = int(named[2] or 0)
    if named[1] == "CPU" or index >= len(gpus):
        raise BadSetting("--place", device, "a device as `cutaway devices` spells it")
    return gpus[index]


def _parts(text: str) -> list[str]:
    """Split at commas, but not inside a pattern: a part ends only after it has named its device."""
    parts: list[str] = []
    for piece in text.replace("/", ",").split(",") if _is_shares(text) else text.split(","):
        if parts and parts[-1] and "=" not in parts[-1] and not _NUMBER.fullmatch(parts[-1]):
            parts[-1] += f",{piece}"
        else:
            parts.append(piece.strip())
    return parts


def _is_shares(text: str) -> bool:
    return all(_NUMBER.fullmatch(piece.strip()) for piece in re.split("[,/]", text))


def _pattern(text: str) -> str:
    placing(text)
    return text
