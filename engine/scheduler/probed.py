"""An outline with probes: a ring, a buffer that each device has for them alone, keeps each result.

A float32 result that is written once is written there in the first place; all others are copied
out behind the launch that makes them. What fusion would have left out lies there too, so that all
else keeps its address; and fusion is off only where it would leave out a wanted result.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from engine.device.backend import Backend
from engine.errors import CannotProbe
from engine.gguf.formats import F32
from engine.graph.op import VIEW_OPS, Op
from engine.graph.ops.copy import copy_into
from engine.graph.tensor import Role, Tensor, leaf
from engine.scheduler.allocate import ArenaLayout, ArenaPlace, Lifetime
from engine.scheduler.lifetimes import LoweredSplit, arena_type, timeline
from engine.scheduler.outline import Outline, fused_part, kept
from engine.scheduler.probes import Probes, ResultKey
from engine.units import MIB

RING_BYTES = 64 * MIB
"""The most that a device's ring holds."""

RING = -1
"""Which of a plan's chunks the ring is: the last."""


@dataclass(frozen=True)
class Slot:
    """Where a result waits in a device's ring: float32, packed, from byte `offset` on."""

    key: ResultKey
    node: Tensor
    device: str
    offset: int

    @property
    def elements(self) -> slice:
        """Which float32 of the ring they are."""
        begin = self.offset // F32.bytes
        return slice(begin, begin + self.node.nelements)


@dataclass(frozen=True)
class ProbedOutline(Outline):
    """`slots` are in the graph's order. `rings` has the bytes of each device's ring, of which the
    first `copied` are the slots. `steps` and peaks are those of the outline without probes.
    """

    slots: tuple[Slot, ...]
    copied: Mapping[str, int]
    rings: Mapping[str, int]


def probed(made: Outline, probes: Probes) -> ProbedOutline:
    """Raises `CannotProbe` where a ring would be too large or a device does not copy, and
    `BadSetting`.
    """
    found = list(probes.of(made.graph))
    homes = _Homes(made)
    ends = dict.fromkeys(made.layouts, 0)
    slots = []
    for key, node in found:
        backend = homes.backend(node)
        slots.append(Slot(key, node, backend.name, ends[backend.name]))
        ends[backend.name] += arena_type(backend).padded(node.nelements * F32.bytes)
    leaves = {
        name: leaf("probes", F32, (end // F32.bytes,), Role.CACHE)
        for name, end in ends.items()
        if end
    }
    wanted = frozenset(node.storage for _, node in found)
    outside = kept(made.graph, made.division.splits)
    parts = [_unfused(*each, wanted) for each in zip(made.splits, outside, strict=True)]
    written: dict[str, dict[Tensor, ArenaPlace]] = {name: {} for name in ends}
    for slot in slots:
        if homes.stays(slot.node):
            written[slot.device][slot.node] = ArenaPlace(RING, slot.offset)
        else:
            homes.insert(parts, slot, leaves[slot.device])
    layouts, rings = {}, {}
    lifetimes = timeline(made.graph, parts, made.places).lifetimes
    for name, base in made.layouts.items():
        places = {**_made_again(lifetimes[name], base), **base.places, **written[name]}
        own, layout = leaves.get(name), replace(base, places=places)
        homeless = [use for use in _homeless(lifetimes[name], layout) if use.storage is not own]
        ring = {} if own is None else {own: ArenaPlace(RING, 0)}
        rings[name] = ends[name]
        for use in homeless:
            ring[use.storage] = ArenaPlace(RING, rings[name])
            rings[name] += use.size
        layouts[name] = replace(layout, places={**layout.places, **ring})
        if rings[name] > RING_BYTES:
            count = sum(slot.device == name for slot in slots)
            what = f"{count} results take {rings[name] / MIB:.1f} MiB on {name}, of at most"
            instead = "name fewer, or fewer tokens at once"
            raise CannotProbe(f"{what} {RING_BYTES // MIB}", instead, too_large=True)
    values = {field.name: getattr(made, field.name) for field in fields(Outline)}
    values |= {"splits": tuple(parts), "layouts": layouts}
    return ProbedOutline(**values, slots=tuple(slots), copied=ends, rings=rings)


def _unfused(
    part: LoweredSplit, outside: frozenset[Tensor], wanted: frozenset[Tensor]
) -> LoweredSplit:
    """The split with launches of their own for the wanted storages that were left out."""
    left_out = {node.storage for node in part.unfused} - {node.storage for node in part.nodes}
    return fused_part(part, outside | wanted) if left_out & wanted else part


class _Homes:
    """Which split makes each result, and how many nodes there wrote its storage by then."""

    def __init__(self, made: Outline) -> None:
        self._places = made.places
        self._backends = [part.split.backend for part in made.splits]
        split_of = {node: i for i, part in enumerate(made.splits) for node in part.split.nodes}
        self._writers = Counter(n.storage for n in made.graph.nodes if n.op not in VIEW_OPS)
        self._made: dict[Tensor, tuple[int, int]] = {}
        last: dict[Tensor, tuple[int, int]] = {}
        for node in made.graph.nodes:
            if node.op not in VIEW_OPS:
                split = split_of[node]
                before, count = last.get(node.storage, (split, 0))
                last[node.storage] = (split, count + 1 if before == split else 1)
            if node.storage in last:
                self._made[node] = last[node.storage]

    def backend(self, node: Tensor) -> Backend:
        return self._backends[self._made[node][0]]

    def stays(self, node: Tensor) -> bool:
        """True if a step ends with all of it as it is to be reported, where it was written."""
        return node.storage is node and node.fmt is F32 and self._writers[node] == 1

    def insert(self, parts: list[LoweredSplit], slot: Slot, ring: Tensor) -> None:
        """A copy into the slot, behind the launch that makes the result. Raises `CannotProbe`."""
        number, count = self._made[slot.node]
        part, storage = parts[number], slot.node.storage
        writers = [i for i, node in enumerate(part.nodes) if node.storage is storage]
        end = writers[min(count, len(writers)) - 1] + 1
        while end < len(part.nodes) and part.nodes[end].op is Op.RESULT:
            end += 1  # written by the same launch
        copy = copy_into(slot.node, ring.view(slot.offset, slot.node.shape))
        if not part.split.backend.supports(copy, self._places.types_on(part.split.backend)):
            what = f"{slot.key.name} is {slot.node.fmt}, which {slot.device} does not copy"
            raise CannotProbe(what, "name other results")
        copy = copy.named(f"{slot.key.name} (probe)")
        nodes = (*part.nodes[:end], copy, *part.nodes[end:])
        parts[number] = replace(part, nodes=nodes, computes={**part.computes, copy: ()})


@dataclass(frozen=True, slots=True)
class _Use:
    """The steps that need a storage's bytes; `giver` is the one that it takes them over from."""

    storage: Tensor
    giver: Tensor | None
    first: int
    last: int
    size: int


def _uses(lives: Sequence[Lifetime]) -> Iterator[_Use]:
    for life in lives:
        ends = (*life.births[1:], life.last)
        givers = (None, *life.storages)
        for storage, giver, first, last in zip(
            life.storages, givers, life.births, ends, strict=False
        ):
            yield _Use(storage, giver, first, last, life.size)


def _made_again(lives: Sequence[Lifetime], base: ArenaLayout) -> dict[Tensor, ArenaPlace]:
    """A launch's private storage is another tensor each time nodes are fused: it stays where it
    was, by its name.
    """
    had = {(storage.name, storage.nbytes): at for storage, at in base.places.items()}
    new = [s for life in lives for s in life.storages if s not in base.places]
    return {s: had[s.name, s.nbytes] for s in new if (s.name, s.nbytes) in had}


def _homeless(lives: Sequence[Lifetime], layout: ArenaLayout) -> list[_Use]:
    """Storages without a place in the layout, or whose place is still taken."""
    homeless: list[_Use] = []
    alive: list[_Use] = []
    for use in sorted(_uses(lives), key=lambda one: one.first):
        at = layout.places.get(use.storage)
        alive = [one for one in alive if one.last >= use.first]
        if at is None or any(_in_the_way(one, use, layout) for one in alive):
            homeless.append(use)
        else:
            alive.append(use)
    return homeless


def _in_the_way(held: _Use, wanted: _Use, layout: ArenaLayout) -> bool:
    """True if two that live together would share bytes, and not as giver and taker."""
    a, b = layout.places[held.storage], layout.places[wanted.storage]
    if a == b and wanted.giver is held.storage and held.last == wanted.first:
        return False
    apart = a.offset + held.size <= b.offset or b.offset + wanted.size <= a.offset
    return a.chunk == b.chunk and not apart
