"""Answers to requests that try a model with parts of it changed."""

from engine.inside.score import score_answer
from engine.progress import finished
from engine.protocol import AnswerScored, Progress, ScoreAnswer
from engine.worker.answers import answers
from engine.worker.service import Service


@answers(ScoreAnswer)
def _score(service: Service, request: ScoreAnswer) -> AnswerScored:
    model, sequence = service.model
    with sequence.changed(request.changes):
        steps = score_answer(model, sequence, request, service.asked_to_stop(request))
        found = finished(steps, lambda done: service.send(Progress(request.id, "score", done, 0)))
    return AnswerScored(request.id, found.astype("<f4").tobytes())
