"""Answers `Embed`."""

import numpy as np

from engine.protocol import Embed, Embedded, Progress
from engine.runner.embed import embed
from engine.worker.answers import answers
from engine.worker.service import Service


@answers(Embed)
def _embed(service: Service, request: Embed) -> Embedded:
    model, _ = service.model
    stop, found = service.asked_to_stop(request), []
    for one in embed(model, request.texts, request.width, request.normalized, stop):
        found.append(one)
        service.send(Progress(request.id, "embed", len(found), len(request.texts)))
    vectors = np.stack([one.vector for one in found]).astype("<f4") if found else np.empty((0, 0))
    counts = [one.n_tokens for one in found]
    return Embedded(request.id, vectors.shape[1], vectors.tobytes(), counts)
