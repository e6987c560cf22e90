"""Which layers which device takes: the layout search of Ollama's server, as pure functions.

Layers are counted from 0, the output block is the last. All sizes are bytes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

MINIMUM = 457 << 20
FORCED = 1000.0
PRECISION = 1e-6


@dataclass(frozen=True)
class FitDevice:
    """A device that layers may go to. `minimum` stays free; a model never spans libraries."""

    id: str
    free: int
    minimum: int = MINIMUM
    integrated: bool = False
    library: str = "opencl"


@dataclass(frozen=True)
class GPULayers:
    """A device's layers, in ascending order."""

    id: str
    layers: tuple[int, ...] = ()
    library: str = field(default="opencl", compare=False)

    def __str__(self) -> str:
        """`ID:x Layers:n(first..last)`, or the list where there are gaps; nothing when empty."""
        if not self.layers:
            return ""
        n, first, last = len(self.layers), self.layers[0], self.layers[-1]
        if last - first + 1 == n:
            return f"ID:{self.id} Layers:{n}({first}..{last})"
        return f"ID:{self.id} Layers:{n}[{' '.join(map(str, self.layers))}]"


@dataclass(frozen=True)
class LayerLayout:
    """The layers of every device, lower layers first. Two are the same by `digest`."""

    devices: tuple[GPULayers, ...] = ()

    @property
    def total(self) -> int:
        """Layers on these devices."""
        return sum(len(d.layers) for d in self.devices)

    @property
    def digest(self) -> str:
        """A hash of the devices and their layers; devices without layers do not count."""
        made = blake2b(digest_size=8)
        for device in self.devices:
            if device.layers:
                made.update(f"{device.library}/{device.id}:{device.layers};".encode())
        return made.hexdigest()

    def device_of(self, layer: int) -> str | None:
        """Which of the devices has a layer."""
        return next((d.id for d in self.devices if layer in d.layers), None)

    def numbered(self, layers: Sequence[int]) -> "LayerLayout":
        """The same with layer i called layers[i]."""
        return LayerLayout(
            tuple(replace(d, layers=tuple(layers[i] for i in d.layers)) for d in self.devices)
        )

    def __str__(self) -> str:
        listed = f"[{' '.join(map(str, self.devices))}]"
        return f"{self.total}{listed}" if self.total else listed


@dataclass(frozen=True)
class Wish:
    """A person's request to the search. `requested` layers below 0 are as many as fit;
    `has_output` says whether the last layer is the output block, which may be given up first.
    """

    requested: int = -1
    require_full: bool = False
    spread: bool = False
    has_output: bool = True


def assign_layers(
    sizes: Sequence[int], devices: Sequence[FitDevice], wish: Wish, last_used: int = 0
) -> LayerLayout:
    """The most layers on the fewest of `devices` (sorted; `free` less everything reserved).

    Where not all fit, the output block is dropped and that second result counts, even when smaller.
    """
    if wish.requested >= 0 or wish.spread:
        devices = [replace(d, integrated=False) for d in devices]
    layout = LayerLayout()
    for dropped in range(2 if wish.has_output else 1):
        tried = sizes[: len(sizes) - dropped]
        requested = min(len(tried), wish.requested)
        if wish.spread:
            layout = best_fit(tried, devices, requested, not wish.require_full)
        else:
            for i in range(last_used, len(devices)):
                force = i == len(devices) - 1 and not wish.require_full
                layout = best_fit(tried, devices[: i + 1], requested, force)
                if layout.total in (len(tried), requested):
                    break
        if layout.total == len(tried):
            return layout
    return layout


def best_fit(
    sizes: Sequence[int], devices: Sequence[FitDevice], requested: int, force: bool
) -> LayerLayout:
    """Greedy with the smallest share of every device's memory that places as many layers.

    Discrete devices take theirs from the end first, integrated ones what is left.
    """
    found: tuple[GPULayers, ...] = ()
    for integrated in (False, True):
        group = [d for d in devices if d.integrated is integrated]
        if not group:
            continue
        low, high = 0.0, FORCED if requested >= 0 and force else 1.0
        best = greedy(sizes, group, high, requested)
        while high - low > PRECISION:
            middle = (low + high) / 2
            tried = greedy(sizes, group, middle, requested)
            if tried.total == best.total:
                high, best = middle, tried
            else:
                low = middle
        sizes = sizes[: len(sizes) - best.total]
        # Below 0 it means "as many as fit", which it must go on to mean.
        requested = requested - best.total if requested >= 0 else requested
        found = (*best.devices, *found)
    return LayerLayout(found)


def greedy(
    sizes: Sequence[int], devices: Sequence[FitDevice], capacity: float, requested: int = -1
) -> LayerLayout:
    """Layers from the last down, the last device first and never back to one that was left.

    Every device lends `capacity` of its free memory; at most `requested` layers, if not below 0.
    """
    left = list(devices)
    device = left.pop()
    room = int(device.free * capacity)
    taken: list[tuple[FitDevice, list[int]]] = [(device, [])]
    for count, i in enumerate(range(len(sizes) - 1, -1, -1)):
        if 0 <= requested <= count:
            break
        while sizes[i] > room:
            if not left:
                return _layout(taken)
            device = left.pop()
            room = int(device.free * capacity)
            taken.append((device, []))
        room -= sizes[i]
        taken[-1][1].append(i)
    return _layout(taken)


def _layout(taken: Iterable[tuple[FitDevice, list[int]]]) -> LayerLayout:
    lowest_first = reversed(list(taken))
    return LayerLayout(
        tuple(GPULayers(d.id, tuple(reversed(layers)), d.library) for d, layers in lowest_first)
    )
