"""The splits of an outline, compiled: what each brings in, computes, and sends off."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.device.backend import Backend, Commands, Where
from engine.graph.tensor import Tensor
from engine.scheduler.outline import Outline
from engine.scheduler.split import Copy
from engine.scheduler.transfer import Departure, ResolvedCopy, Staging


@dataclass(frozen=True)
class Stage:
    """One split, ready to run."""

    backend: Backend
    arrivals: tuple[ResolvedCopy, ...]
    commands: Commands
    departures: tuple[Departure, ...]


def stages(made: Outline, where_on: Callable[[Backend], Where], staging: Staging) -> list[Stage]:
    """Compile every split. A storage leaves its device once, however many others want it."""
    departures: dict[tuple[Tensor, int], Departure] = {}

    def departure(copy: Copy, origin: Backend) -> Departure | None:
        if origin.is_host or copy.target.is_host:
            return None
        source = where_on(origin)(copy.source)
        one = departures.setdefault((copy.source, copy.made), Departure(source, copy.source.nbytes))
        if copy.staged:
            one.staging, one.offset = staging, made.staging.places[copy.source].offset
        return one

    def transfers(copies: Sequence[Copy]) -> tuple[ResolvedCopy, ...]:
        return tuple(
            ResolvedCopy(
                copy,
                where_on(copy.origin)(copy.source),
                where_on(copy.target)(copy.source),
                departure(copy, copy.origin),
            )
            for copy in copies
            if copy.origin is not None
        )

    arrivals = [transfers(part.split.copies) for part in made.splits]
    leaving: dict[int, list[Departure]] = {}
    for (_, number), one in departures.items():
        leaving.setdefault(number, []).append(one)
    return [
        Stage(
            part.split.backend,
            arrivals[number],
            part.split.backend.compile(part.nodes, where_on(part.split.backend)),
            tuple(leaving.get(number, ())),
        )
        for number, part in enumerate(made.splits)
    ]
