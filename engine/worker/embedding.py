"""Answers `Embed`."""

import numpy as np

from engine.errors import SequenceBusy
from engine.protocol import Embed, Embedded, Progress
from engine.runner.embed import TextEmbedding, embed_in_parts
from engine.worker.answers import InParts, answers
from engine.worker.service import Service


@answers(Embed)
def _embed(service: Service, request: Embed) -> InParts[Embedded]:
    answering, stop = service.answering, service.asked_to_stop(request)
    found: list[TextEmbedding] = []
    most = 0

    def claim(n: int) -> None:
        nonlocal most
        most = n
        if not answering.has_room(n):
            raise SequenceBusy

    asked = (request.texts, request.width, request.normalized, stop, claim)
    for part in embed_in_parts(answering.model, *asked):
        found += part
        if part:
            service.send(Progress(request.id, "embed", len(found), len(request.texts)))
        yield
        answering.free(most)
    vectors = np.stack([one.vector for one in found]).astype("<f4") if found else np.empty((0, 0))
    counts = [one.n_tokens for one in found]
    return Embedded(request.id, vectors.shape[1], vectors.tobytes(), counts)
