"""Answers to requests about a model's numbers."""

import numpy as np

from engine.inside.compare import compare
from engine.inside.results import result_parts
from engine.inside.texts import compare_texts
from engine.protocol import (
    CacheCells,
    CellsRead,
    Compare,
    Compared,
    CompareTexts,
    DumpedStep,
    DumpResults,
    Progress,
    ReadCells,
    ResultsDumped,
    TextsCompared,
)
from engine.runner.dump import dump
from engine.runner.pictures.items import tokens_of
from engine.runner.pictures.viewer import Encoding
from engine.scheduler.probes import Probes
from engine.worker.answers import answers
from engine.worker.service import Service


@answers(ReadCells)
def _cells(service: Service, request: ReadCells) -> CellsRead:
    built = service.model[0].built
    held = [None if layer is None else layer.cache for layer in built.layers]
    caches = []
    for number, cache in enumerate(built.caches.caches):
        layers = [i for i, index in enumerate(held) if index == number]
        bits, positions = (np.ascontiguousarray(cache.cells[:, i], "<i4") for i in (0, 1))
        sight = (cache.window, cache.chunk, layers)
        caches.append(CacheCells(*sight, bits.tobytes(), positions.tobytes()))
    states = built.caches.states
    if states.n_slots:
        layers = [i for i, state in enumerate(built.states) if state is not None]
        last = np.where(states.bits != 0, states.read - 1, -1)
        told = (np.asarray(x, "<i4").tobytes() for x in (states.bits, last, states.kept))
        caches.append(CacheCells(None, None, layers, *told))
    return CellsRead(request.id, caches)


@answers(DumpResults)
def _dump(service: Service, request: DumpResults) -> ResultsDumped:
    model, sequence = service.model
    steps: list[DumpedStep] = []
    stop = service.asked_to_stop(request)
    probes = Probes(tuple(request.probes))
    found = dump(model, sequence, probes, request.messages, request.prompt, request.tokens, stop)
    for step in found:
        if isinstance(step, Encoding):
            service.send(Progress(request.id, "encode", step.done, step.total))
            continue
        for part in result_parts(request.id, len(steps), step.results):
            service.send(part)
        tokens = tokens_of(step.items).tolist()
        text = model.tokenizer.stream()
        read = [text.push(token) for token in tokens if token >= 0]
        steps.append(DumpedStep(step.first, tokens, "".join(read) + text.flush()))
    return ResultsDumped(request.id, steps)


@answers(Compare)
def _compare(service: Service, request: Compare) -> Compared:
    model, sequence = service.model
    for told in compare(model, sequence, request, service.asked_to_stop(request)):
        if isinstance(told, Compared):
            return told
        service.send(told)
    raise AssertionError  # it ends with the reply


@answers(CompareTexts)
def _compare_texts(service: Service, request: CompareTexts) -> TextsCompared:
    model, sequence = service.model
    for told in compare_texts(model, sequence, request, service.asked_to_stop(request)):
        if isinstance(told, TextsCompared):
            return told
        service.send(told)
    raise AssertionError  # it ends with the reply
