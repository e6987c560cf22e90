"""`cutaway plan`: where a model would go and whether it fits, without loading it."""

import argparse
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace

from app.names import REPOSITORY
from app.terminal.options import add_engine_options, engine_options
from app.terminal.text import note, plain, print_json, table
from app.words import UNKNOWN
from engine.errors import BadSetting, ModelNotFound
from engine.protocol import ArenaRow, DescribePlan, MeasureDevices, Planned, SplitRow
from engine.settings import EngineOptions
from engine.units import MIB

NAME = "plan"
HELP = "estimate memory and speed on each device, without loading the model"

SHOWN = 4
"""Tensors of an arena that are named."""
RARE = ("adapters", "recurrent state", "checkpoints")
"""Shown where a model has them."""
OF_LAYERS = ("weights", "adapters", "cache", "recurrent state", "checkpoints", "vision")
COMPONENTS = (*OF_LAYERS, "graph", "staging", "input")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("model", metavar="MODEL", help="path, stored name or org/repo:quant")
    parser.add_argument(
        "--nodes", action="store_true", help="list the device of every node and the reason"
    )
    parser.add_argument(
        "--measure", action="store_true", help="measure layer speed on the devices first"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    add_engine_options(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the placement. Raises BadSetting, HubError, ModelNotFound, WorkerDied."""
    options = engine_options(args)

    from app.library import resolve
    from engine.worker import Worker

    with Worker() as worker:
        try:
            path = str(resolve(args.model))
        except ModelNotFound as error:
            path, options = _from_header(args, options, error)
        if args.measure:
            worker.get(MeasureDevices(worker.new_id(), path, options))
        request = DescribePlan(worker.new_id(), path, options, args.nodes)
        planned = worker.get(request)
    if args.json:
        import msgspec

        print_json(msgspec.to_builtins(planned), indent=2)
    else:
        print("\n".join(lines(planned)))
    return 0


def _from_header(
    args: argparse.Namespace, options: EngineOptions, error: ModelNotFound
) -> tuple[str, EngineOptions]:
    """The header of a model on Hugging Face, and of its projector; raises `error` for others."""
    name = REPOSITORY.match(args.model)
    if name is None:
        raise error
    if args.measure:
        raise BadSetting("measure", args.model, "a model on this disk; fetch it first")

    from app.fetch.heads import fetch_heads
    from app.fetch.quants import find_quant
    from app.fetch.search import Hub

    hub = Hub()
    found = find_quant(name["repo"], name["quant"], hub.files(name["repo"]))
    heads = fetch_heads(hub, found)
    note(f"planned from the header of {plain(found.files[0].path)}; the model is not downloaded")
    if not options.mmproj:
        mmproj = str(heads.projector) if heads.projector is not None else "none"
        options = replace(options, mmproj=mmproj)
    return str(heads.model), options


def lines(planned: Planned) -> Iterable[str]:
    """Yield the lines for a terminal."""
    name = plain(planned.name)
    kept = f"{planned.n_ctx} tokens of context, {planned.kv} cache"
    bits = "" if planned.activations == 12 else f", {planned.activations}-bit activations"
    yield f"{name}: {planned.architecture}, {kept}{bits}"
    yield f"does not fit: {planned.problem}" if planned.problem else "fits"
    yield ""
    yield from planned.reasons
    yield from (f"warning: {text}" for text in planned.warnings)
    for pool in planned.memory.pools:
        free = "unknown" if pool.free is None else f"{pool.free / MIB:.0f} MiB"
        yield (
            f"{pool.name} memory: {pool.total / MIB:.0f} MiB, free {free} ({pool.source}),"
            f" of which {pool.limit / MIB:.0f} MiB are for {', '.join(pool.devices)}"
        )
    yield "\ndevices (MiB)"
    yield from table(_devices(planned))
    yield "\nlayers (MiB)"
    yield from table(_layers(planned), left=(0, 1))
    yield "\ngraph memory of a full batch (MiB)"
    yield from map(_arena, planned.arenas)
    yield "\nsplits, one token"
    yield from (_split(i, split) for i, split in enumerate(planned.splits))
    yield f"{planned.crossing} bytes go between devices for each token"
    yield _speed(planned)
    yield f"as a rule: --place {shlex.quote(planned.rule)}"
    if planned.nodes:
        yield planned.nodes.rstrip("\n")


def _speed(planned: Planned) -> str:
    speed = planned.speed
    if speed is None:
        return "speed unknown: layers on the host, or devices not timed yet (see --measure)"
    times = [f"{name} {ns / 1e6:.1f}" for name, ns in speed.devices.items()]
    times += [f"from device to device {speed.copies / 1e6:.1f}", f"host {speed.host / 1e6:.1f}"]
    text = f"about {speed.tokens_per_s:.0f} tokens per second (milliseconds: {', '.join(times)})"
    return f"{text}, by {plain(speed.source)}"


def _devices(planned: Planned) -> Iterable[Sequence[str]]:
    shown = _shown(planned, COMPONENTS)
    yield ("device", *shown, "mapped", "total", "limit", "left")
    for row in planned.budgets:
        mine = [r for r in planned.memory.rows if r.device == row.device]
        held = [r for r in mine if r.status != "mapped"]
        sums = [sum(r.size for r in held if r.component == c) for c in shown]
        mapped = sum(r.size for r in mine) - sum(r.size for r in held)
        numbers = (*sums, mapped, row.wanted, row.limit, row.limit - row.wanted)
        yield (row.device, *map(_mib, numbers))


def _layers(planned: Planned) -> Iterable[Sequence[str]]:
    """One line per layer and device; most layers have one device."""
    shown = _shown(planned, OF_LAYERS)
    yield ("layer", "device", *shown)
    for i in range(len(planned.layers)):
        mine = [r for r in planned.memory.rows if r.layer == i]
        devices = dict.fromkeys([planned.layers[i], *(r.device for r in mine)])
        for device in devices:
            sums = (
                sum(r.size for r in mine if (r.device, r.component) == (device, c)) for c in shown
            )
            yield ("out" if i == len(planned.layers) - 1 else str(i), device, *map(_mib, sums))


def _shown(planned: Planned, components: Sequence[str]) -> list[str]:
    present = {row.component for row in planned.memory.rows}
    return [c for c in components if c not in RARE or c in present]


def _arena(arena: ArenaRow) -> str:
    """The tensors that take most of it when it is fullest."""
    shown = ", ".join(f"{name} {_mib(size)}" for name, size in arena.alive[:SHOWN])
    more = f" and {len(arena.alive) - SHOWN} more" if len(arena.alive) > SHOWN else ""
    when = f"while {arena.node} runs" if arena.node else "during copies"
    return (
        f"  {arena.device}: {_mib(arena.size)}, lower bound {_mib(arena.bound)};"
        f" fullest {when}: {shown}{more}"
    )


def _split(number: int, split: SplitRow) -> str:
    copies = [f"{c.name} ({c.size} bytes from {c.origin or 'the step'})" for c in split.copies]
    nodes = f"{split.first} to {split.last}" if split.n_nodes > 1 else split.first
    inputs = f", needs {', '.join(copies)}" if copies else ""
    return f"  #{number} {split.device}: {split.n_nodes} nodes, {nodes}{inputs}"


def _mib(size: int) -> str:
    return f"{size / MIB:.1f}" if size else UNKNOWN
