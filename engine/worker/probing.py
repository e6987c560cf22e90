"""Answers to requests about a model's numbers."""

from collections.abc import Iterator

import numpy as np

from engine.inside.compare import compare
from engine.inside.live import layer_of
from engine.protocol import (
    CacheCells,
    CellsRead,
    Compare,
    Compared,
    DumpedStep,
    DumpResults,
    Progress,
    ReadCells,
    ResultInfo,
    ResultPart,
    ResultsDumped,
)
from engine.runner.dump import dump
from engine.runner.pictures.items import tokens_of
from engine.runner.pictures.viewer import Encoding
from engine.scheduler.probes import Probed, Probes
from engine.units import MIB
from engine.worker.answers import answers
from engine.worker.service import Service

PART = MIB // 4
"""Elements that are sent at once."""


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
        for one in step.results:
            for part in _parts(request.id, len(steps), one):
                service.send(part)
        tokens = tokens_of(step.items).tolist()
        text = model.tokenizer.stream()
        read = [text.push(token) for token in tokens if token >= 0]
        steps.append(DumpedStep(step.first, tokens, "".join(read) + text.flush()))
    return ResultsDumped(request.id, steps)


def _parts(number: int, step: int, one: Probed) -> Iterator[ResultPart]:
    values = np.ascontiguousarray(one.values, "<f4")
    dims = list(values.shape[::-1])
    name, occurrence = one.key
    node = one.node
    info = ResultInfo(
        name, occurrence, step, node.op, node.fmt.name, dims, one.device, layer_of(name)
    )
    flat = values.reshape(-1)
    for start in range(0, flat.size, PART):
        yield ResultPart(number, info, start, flat[start : start + PART].tobytes())


@answers(Compare)
def _compare(service: Service, request: Compare) -> Compared:
    model, sequence = service.model
    for told in compare(model, sequence, request, service.asked_to_stop(request)):
        if isinstance(told, Compared):
            return told
        service.send(told)
    raise AssertionError  # it ends with the reply
