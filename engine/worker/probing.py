"""Answers to requests about a model's numbers."""

from collections.abc import Iterator
from functools import partial

from engine.errors import SequenceBusy
from engine.inside.cells import cells_of
from engine.inside.compare import compare
from engine.inside.results import result_parts
from engine.inside.texts import compare_texts
from engine.protocol import (
    CellsRead,
    Compare,
    Compared,
    CompareTexts,
    DumpedStep,
    DumpResults,
    Progress,
    R,
    ReadCells,
    Reply,
    ResultsDumped,
    TextsCompared,
)
from engine.runner.dump import dump
from engine.runner.pictures.items import tokens_of
from engine.runner.pictures.viewer import Encoding
from engine.scheduler.probes import Probes
from engine.worker.service import InParts, Service, answers


@answers(ReadCells)
def _cells(service: Service, request: ReadCells) -> CellsRead:
    return CellsRead(request.id, cells_of(service.model[0].built))


@answers(DumpResults)
def _dump(service: Service, request: DumpResults) -> ResultsDumped:
    model, sequence = service.model
    if sequence.is_held:
        raise SequenceBusy
    steps: list[DumpedStep] = []
    stop = service.stop_of(request)
    probes = Probes(tuple(request.probes))
    arguments = (request.messages, request.prompt, request.tokens, stop, request.edits)
    found = dump(model, sequence, probes, *arguments, request.prompt_tokens)
    for step in found:
        if isinstance(step, Encoding):
            service.send(Progress(request.id, "encode", step.done, step.total))
            continue
        for part in result_parts(request.id, len(steps), step.results):
            service.send(part)
        tokens = tokens_of(step.items)
        text = model.tokenizer.stream()
        read = [text.push(token) for token in tokens if token >= 0]
        steps.append(DumpedStep(step.first, tokens, "".join(read) + text.flush()))
    return ResultsDumped(request.id, steps)


@answers(Compare)
def _compare(service: Service, request: Compare) -> InParts[Compared]:
    stop = service.stop_of(request)
    with service.answering.lend() as lent:
        claim = partial(service.answering.claim, lent)
        model = service.answering.model
        parts = compare(model, lent.sequence, request, stop, claim)
        return (yield from _sent(service, parts, Compared))


@answers(CompareTexts)
def _compare_texts(service: Service, request: CompareTexts) -> InParts[TextsCompared]:
    stop = service.stop_of(request)
    with service.answering.lend() as lent:
        claim = partial(service.answering.claim, lent)
        model = service.answering.model
        parts = compare_texts(model, lent.sequence, request, stop, claim)
        return (yield from _sent(service, parts, TextsCompared))


def _sent(service: Service, parts: Iterator[Reply | None], last: type[R]) -> InParts[R]:
    """Send the replies on the way; the one of that class, which ends it, is returned."""
    for part in parts:
        if isinstance(part, last):
            return part
        if part is not None:
            service.send(part)
        yield
    raise AssertionError  # it ends with the reply
