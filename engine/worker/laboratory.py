"""Handlers of experiments and measurements over texts."""

from collections.abc import Generator
from functools import partial

from engine.laboratory.features import find_features
from engine.laboratory.patch import map_patches
from engine.laboratory.quality import measure_quality
from engine.laboratory.record import record
from engine.progress import reporting
from engine.protocol import (
    DatasetRecorded,
    FeaturesFound,
    FindFeatures,
    MapPatches,
    MeasureQuality,
    PatchesMapped,
    Progress,
    QualityMeasured,
    R,
    RecordDataset,
)
from engine.worker.service import InParts, Service, answers


@answers(MeasureQuality)
def _quality(service: Service, request: MeasureQuality) -> QualityMeasured:
    service.close_model()
    return measure_quality(request, service.send, service.stop_of(request))


@answers(MapPatches)
def _patches(service: Service, request: MapPatches) -> InParts[PatchesMapped]:
    answering, stop = service.answering, service.stop_of(request)
    with answering.lend() as lent:
        claim = partial(answering.claim, lent)
        arguments = (answering.model, lent.sequence, request, stop, claim, answering.free)
        return (yield from _sent(service, map_patches(*arguments)))


@answers(FindFeatures)
def _features(service: Service, request: FindFeatures) -> InParts[FeaturesFound]:
    answering, stop = service.answering, service.stop_of(request)
    with answering.lend() as lent:
        claim = partial(answering.claim, lent)
        arguments = (answering.model, lent.sequence, request, stop, claim)
        return (yield from _sent(service, find_features(*arguments)))


@answers(RecordDataset)
def _record(service: Service, request: RecordDataset) -> InParts[DatasetRecorded]:
    answering, stop = service.answering, service.stop_of(request)
    with answering.lend() as lent:
        claim = partial(answering.claim, lent)
        arguments = (answering.model, lent.sequence, request, stop, claim)
        return (yield from _sent(service, record(*arguments)))


def _sent(service: Service, steps: Generator[Progress | None, None, R]) -> InParts[R]:
    """Send each progress; others compute after each step."""

    def send(progress: Progress | None) -> None:
        if progress is not None:
            service.send(progress)

    return (yield from reporting(steps, send))
