"""Another placement for a model that is open: what changes its place goes there, the rest stays."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import fields, replace
from typing import NamedTuple

from engine.backends.opencl.backend import OpenCLBackend
from engine.device.backend import Backend, Location
from engine.errors import Cancelled, CutawayError, NeedsReload
from engine.graph.tensor import Tensor
from engine.runner.devices import OpenedDevices, open_devices
from engine.runner.loading import LoadedModel
from engine.runner.placing.dry_run import DryRun
from engine.runner.placing.placement import place
from engine.runner.placing.room import StageProgress
from engine.runner.stepper import Stepper
from engine.settings import OPTIONS, EngineOptions
from engine.weights.load import allocate, fill, free

MAY_CHANGE = ("place", "gpu_layers", "device", "prepared")
PIECE = 16 << 20
"""Bytes that pass through the host at once."""


class MovedBytes(NamedTuple):
    """`n_uploaded` weights of `uploaded_bytes` were read from the file; `copied_bytes` of weights
    and caches went from one buffer to another.
    """

    n_uploaded: int
    uploaded_bytes: int
    copied_bytes: int


def move(
    model: LoadedModel,
    options: EngineOptions,
    progress: StageProgress = lambda stage, done, total: None,
    cancelled: Callable[[], bool] = lambda: False,
    placing: Callable[[DryRun], None] = lambda dry: None,
) -> MovedBytes:
    """Place the model by `options`; `placing` receives what will be held. No step may be running.

    Buffers that hold the same as before stay, also those of arenas; until all that is new is there
    and filled, nothing is freed. Raises `NeedsReload`, `BadSetting`, `CannotPlace`, `NoMem`,
    `DeviceError`, `KernelBuildFailed` and `Cancelled`; the model is then as it was.
    """
    _check(model.options, options)
    model.prefixes.ram.clear()
    room, old = model.room, model.dry
    with ExitStack() as stack:
        devices = _devices(model.devices, options, stack)
        decided = place(old.graphs, devices, options)
        dry = decided.dry
        placing(dry)
        if decided.failure is not None:
            raise decided.failure
        new: dict[Tensor, Location] = {}
        stack.callback(lambda: free(new.values()))
        before = {*old.weights, *old.caches}
        wanted = (*dry.weights, *dry.caches)
        allocate((one for one in wanted if one not in before), new)
        kept = {t: room.placed[t] for one in wanted if one in before for t, _ in one.tensors}
        placed = {t: kept.get(t) or new[t] for one in wanted for t, _ in one.tensors}
        moved = _fill(model, dry, new, progress, cancelled)
        planner = room.planner(dry, placed)
        spare = room.stepper.planner.chunks
        stack.callback(lambda: planner.close(keep=spare))
        planner.take(((w.backend, w.size, w.owner) for w in dry.arenas), spare)
        for backend in dry.backends:
            backend.watch_builds(lambda done, total: progress("compile", done, total))
        Stepper(dry.built, planner, room.stepper.fused_attention).ready()
        if cancelled():
            raise Cancelled("moving")
        stack.pop_all()
    unused = [b for b in model.devices.backends if b not in devices.backends]
    room.settle(placed, planner)
    model.dry, model.options, model.devices = dry, options, devices
    for backend in unused:
        with suppress(CutawayError):  # it is done with, whatever it says
            backend.close()
    return moved


def _check(now: EngineOptions, wanted: EngineOptions) -> None:
    """Raises `NeedsReload`."""
    names = [
        f.name for f in fields(EngineOptions) if getattr(now, f.name) != getattr(wanted, f.name)
    ]
    fixed = [f"--{OPTIONS[name].flag}" for name in names if name not in MAY_CHANGE]
    if fixed:
        raise NeedsReload(" and ".join(fixed))


def _devices(now: OpenedDevices, options: EngineOptions, stack: ExitStack) -> OpenedDevices:
    """Open the devices in the options; devices that are already open are reused. Such as are open
    already, as they are.
    """
    wanted = open_devices(options, stack)
    known = {backend.name: backend for backend in now.backends}
    for backend in wanted.backends:
        other = known.get(backend.name, backend)
        if _context(backend) != _context(other):
            raise NeedsReload(f"the devices used together with {backend.name}")
    return replace(wanted, backends=tuple(known.get(b.name, b) for b in wanted.backends))


def _context(backend: Backend) -> object:
    """Return the context within which the driver copies buffers by itself."""
    return backend.context if isinstance(backend, OpenCLBackend) else None


def _fill(
    model: LoadedModel,
    dry: DryRun,
    new: dict[Tensor, Location],
    progress: StageProgress,
    cancelled: Callable[[], bool],
) -> MovedBytes:
    """Fill new buffers: with weights from the file, unless the device has them in the same layout,
    and with the caches' contents. Raises `Cancelled`.
    """
    opened, placed = model.opened, model.room.placed
    sizes = {t: size for one in (*dry.weights, *dry.caches) for t, size in one.tensors}
    done, total = 0, sum(t.nbytes for t in new)
    uploaded: dict[Tensor, Location] = {}

    def step(size: int) -> None:
        nonlocal done
        done += size
        progress("load", done, total)
        if cancelled():
            raise Cancelled("moving")

    step(0)
    for tensor, to in new.items():
        source = placed.get(tensor)
        if source is not None and source.buffer.type == to.buffer.type:
            to.buffer.start_copy(to.offset, source, sizes[tensor], source.buffer.mark()).wait()
            step(tensor.nbytes)
        elif tensor in dry.built.sources:
            uploaded[tensor] = to
        else:
            assert source is not None, tensor
            for size in _across(source, to, tensor.nbytes):
                step(size)
    with closing(fill(uploaded, dry.backend_of, opened.stored)) as steps:
        for size in steps:
            step(size)
    size = sum(t.nbytes for t in uploaded)
    return MovedBytes(len(uploaded), size, total - size)


def _across(source: Location, to: Location, size: int) -> Iterator[int]:
    """Bytes from one device to another, through the host. Yields how many went."""
    for start in range(0, size, PIECE):
        piece = source.buffer.read(source.offset + start, min(PIECE, size - start))
        to.buffer.write(to.offset + start, piece)
        yield piece.size
