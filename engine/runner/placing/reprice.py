"""Placements priced one after the other: what does not depend on the rule is kept between them."""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

from engine.device.backend import Backend
from engine.memory.placement import Placement
from engine.memory.pools import SYSTEM
from engine.memory.rule import llama_cpp, rule_of
from engine.patterns import placing
from engine.protocol import BudgetRow, PlannedMemory, Repriced
from engine.runner.batch import MAX_BATCH
from engine.runner.devices import OpenedDevices, measure, open_devices
from engine.runner.loading import cache_format
from engine.runner.pictures.beside import Opened, open_model
from engine.runner.placing.describe import budget_row, budgets, split_row
from engine.runner.placing.dry_run import DryRun
from engine.runner.placing.graphs import ModelGraphs
from engine.runner.placing.placement import DecidedPlacement, place
from engine.runner.placing.speed import Timings
from engine.runner.placing.tiles import Parts, tiles
from engine.runner.records import foreseen
from engine.scheduler.costs import costs
from engine.settings import EngineOptions

Facts = tuple[object, ...]

LLAMA_CPP = {"nvidia": "CUDA", "amd": "ROCm"}
"""What llama.cpp calls devices of a driver; of all others Vulkan."""


@dataclass(frozen=True)
class _Kept:
    """A model whose placements are priced; `close` gives back its file and devices."""

    facts: Facts
    opened: Opened
    graphs: ModelGraphs
    parts: Parts
    devices: OpenedDevices
    timings: Timings
    closing: ExitStack

    @property
    def is_current(self) -> bool:
        """True if the files on disk are those that were read."""
        return self.facts[0] == _files(self.opened)


class Repricer:
    """Keeps one model at a time. One thread asks; any thread may call `release`, and never waits
    for an answer.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: _Kept | None = None
        self._released = 0

    def reprice(
        self,
        id: int,
        path: str,
        options: EngineOptions,
        known: Placement | None = None,
        depth: int = 0,
    ) -> Repriced:
        """Return memory and speed after `depth` tokens, for the `known` placement or the one that
        `options` lead to.

        Raises as `load_model` does where files, options or the rule are wrong, but not `NoMem`.
        """
        wanted = options if known is None else replace(options, place=rule_of(known))
        with self._lock:
            kept, self._kept = self._kept, None
            released = self._released
        try:
            kept = _current(kept, path, wanted)
            placed = place(kept.graphs, kept.devices, wanted)
            reply = _moves(id, kept, placed, known, depth)
        except BaseException:
            if kept is not None:
                kept.closing.close()
            raise
        with self._lock:
            if released == self._released:
                self._kept, kept = kept, None
        if kept is not None:
            kept.closing.close()
        return reply

    def release(self) -> None:
        """Give back what is kept, now or when the answer that uses it is done."""
        with self._lock:
            kept, self._kept = self._kept, None
            self._released += 1
        if kept is not None:
            kept.closing.close()


def _current(kept: _Kept | None, path: str, options: EngineOptions) -> _Kept:
    """Return the kept model if it has this file and these options, apart from the rule; else made
    anew.
    """
    if kept is not None:
        devices = kept.devices.ruled(options.place)
        if kept.facts[1:] == _facts(path, options) and devices is not None and kept.is_current:
            measure(devices.backends)
            kept.timings.read()
            return replace(kept, devices=devices)
        kept.closing.close()
    with ExitStack() as stack:
        opened = open_model(path, options, MAX_BATCH, cache_format(options), stack)
        graphs = ModelGraphs.of(opened.built, options)
        devices = open_devices(options, stack)
        facts = (_files(opened), *_facts(path, options))
        timings = Timings(graphs, devices.backends, options)
        parts = Parts(opened.built)
        return _Kept(facts, opened, graphs, parts, devices, timings, stack.pop_all())
    raise AssertionError  # the stack never swallows an exception


def _facts(path: str, options: EngineOptions) -> Facts:
    """Return the facts that the built model and the devices depend on; so do files that lie beside
    it.
    """
    folders = {Path(path).absolute().parent, Path(path).resolve().parent}
    return path, replace(options, place=""), frozenset(map(_state, folders))


def _files(opened: Opened) -> tuple[tuple[object, ...], ...]:
    """Return the state of the files, to detect changes."""
    files = [opened.file, *([opened.tower_file] if opened.tower_file is not None else [])]
    return tuple(_state(path) for file in files for path in file.paths)


def _state(path: Path) -> tuple[object, ...]:
    try:
        now = os.stat(path)
    except OSError as error:
        return str(path), error.errno
    return str(path), now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns


def _moves(
    id: int, kept: _Kept, placed: DecidedPlacement, known: Placement | None, depth: int
) -> Repriced:
    dry, devices = placed.dry, kept.devices
    placement = dry.placement if known is None else known
    step = dry.one_token()
    splits = [split_row(one) for one in step.splits]
    flags = llama_cpp(placement, _called(devices.backends), _of_nodes(dry))
    return Repriced(
        id,
        n_layer=dry.built.n_layer,
        layers=list(placement.layers),
        overrides=list(placement.overrides),
        reasons=list(placement.reasons),
        causes=_causes(placement),
        labels=kept.parts.labels,
        tiles=tiles(dry, kept.parts),
        memory=foreseen(PlannedMemory, id, dry, placed.failure),
        budgets=_budgets(dry, devices.backends),
        splits=splits,
        crossing=sum(c.size for s in splits for c in s.copies if c.origin is not None),
        warnings=[str(cost) for cost in costs(step)],
        problem=str(placed.failure or ""),
        rule=rule_of(placement),
        llama_cpp=flags.flags,
        llama_cpp_notes=list(flags.notes),
        speed=kept.timings.predict(dry, step, kept.parts.of, depth),
    )


def _causes(placement: Placement) -> list[str]:
    """Why each layer lies where it does: as asked, or the sentence that says so of its device."""
    reasons = {
        device: next(
            (reason for reason in placement.reasons if reason.startswith(f"{device} takes")), ""
        )
        for device in dict.fromkeys(placement.layers)
    }
    return [
        f"on {device}, as set by the user" if i in placement.requested else reasons[device]
        for i, device in enumerate(placement.layers)
    ]


def _budgets(dry: DryRun, backends: Sequence[Backend]) -> list[BudgetRow]:
    """Return the budget of every candidate device, by priority; those without anything too."""
    used = {row.device: row for row in budgets(dry)}
    return [used.get(b.name) or budget_row(b, 0) for b in backends]


def _called(backends: Sequence[Backend]) -> Callable[[str], str]:
    """llama.cpp's names of devices: of its CUDA, ROCm and Vulkan builds."""
    cpus = {b.name for b in backends if b.pool.name == SYSTEM and not b.is_integrated}

    def called(device: str) -> str:
        family, _, number = device.partition(":")
        if device in cpus:
            return "CPU"
        return f"{LLAMA_CPP.get(family, 'Vulkan')}{number or 0}"

    return called


def _of_nodes(dry: DryRun) -> list[str]:
    """The patterns that name results, not weights."""
    weights = [t.name for t, owner in dry.built.owners.items() if owner.layer is not None]
    patterns = [pattern for pattern, _ in dry.placement.overrides]
    return [p for p in patterns if not any(placing(p).is_in(name) for name in weights)]
