"""Answers to requests about placement by hand."""

from contextlib import ExitStack

from engine.memory.pools import limits_kept
from engine.protocol import (
    DevicesMeasured,
    Load,
    MeasureDevices,
    Move,
    Moved,
    PlannedMemory,
    Progress,
    Reprice,
    Repriced,
)
from engine.runner.batch import MAX_BATCH
from engine.runner.devices import open_devices
from engine.runner.loading import cache_format
from engine.runner.pictures.beside import open_model
from engine.runner.placing.dry_run import DryRun
from engine.runner.placing.graphs import ModelGraphs
from engine.runner.placing.move import move
from engine.runner.placing.speed import Timings, measure_speed
from engine.runner.placing.tiles import Parts
from engine.runner.records import foreseen, held
from engine.worker.service import Service, answers


@answers(Reprice)
def _reprice(service: Service, request: Reprice) -> Repriced:
    path, options = request.path, request.options
    known = service.placement(path, options)
    return service.repricer.reprice(request.id, path, options, known, request.depth)


@answers(MeasureDevices)
def _measure(service: Service, request: MeasureDevices) -> DevicesMeasured:
    options, stop = request.options, service.stop_of(request)

    def progress(done: int, total: int) -> None:
        service.send(Progress(request.id, "bench", done, total))

    with limits_kept(), ExitStack() as stack:
        fmt = cache_format(options)
        opened = open_model(request.path, options, MAX_BATCH, fmt, stack)
        graphs, backends = (
            ModelGraphs.of(opened.built, options),
            open_devices(options, stack).backends,
        )
        timings, parts = Timings(graphs, backends, options), Parts(opened.built)
        again, host = request.again, backends[-1]
        measure_speed(opened, graphs, timings, parts.of, host, again, progress, stop)
        return DevicesMeasured(request.id, timings.reported(0))


@answers(Move)
def _move(service: Service, request: Move) -> Moved:
    model, sequence = service.model

    def placing(dry: DryRun) -> None:
        service.send(foreseen(PlannedMemory, 0, dry, dry.refused()))

    progress, stop = service.progress(request), service.stop_of(request)
    service.stop_keeping()
    try:
        with limits_kept():
            moved = move(model, request.options, progress, stop, placing)
    finally:
        service.keep()
        service.send(held(model.dry))
    loaded = model.describe(Load(request.id, model.path, model.options))
    return Moved(request.id, loaded, *moved, len(sequence.items))
