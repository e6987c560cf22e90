"""Answers to requests about placement by hand."""

from engine.memory.pools import limits_kept
from engine.protocol import Load, Move, Moved, PlannedMemory, Reprice, Repriced
from engine.runner.placing.dry_run import DryRun
from engine.runner.placing.move import move
from engine.runner.records import foreseen, held
from engine.worker.answers import answers
from engine.worker.service import Service


@answers(Reprice)
def _reprice(service: Service, request: Reprice) -> Repriced:
    path, options = request.path, request.options
    known = service.placement(path, options)
    return service.repricer.reprice(request.id, path, options, known)


@answers(Move)
def _move(service: Service, request: Move) -> Moved:
    model, sequence = service.model

    def placing(dry: DryRun) -> None:
        service.send(foreseen(PlannedMemory, 0, dry, dry.refused()))

    progress, stop = service.progress(request), service.asked_to_stop(request)
    try:
        with limits_kept():
            moved = move(model, request.options, progress, stop, placing)
    finally:
        service.send(held(model.dry))
    loaded = model.describe(Load(request.id, model.path, model.options))
    return Moved(request.id, loaded, *moved, len(sequence.items))
