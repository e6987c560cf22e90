"""Answers to requests that try a model with parts of it changed."""

from functools import partial

from engine.inside.changing import changing
from engine.inside.score import score_answer
from engine.protocol import AnswerScored, Progress, ScoreAnswer
from engine.worker.answers import InParts, answers
from engine.worker.service import Service


@answers(ScoreAnswer)
def _score(service: Service, request: ScoreAnswer) -> InParts[AnswerScored]:
    answering, stop = service.answering, service.asked_to_stop(request)
    with answering.lend() as lent:
        # What the model as it is has read is of no use to a changed one.
        claim = partial(answering.claim, lent, shares=not request.changes)
        reading = score_answer(answering.model, lent.sequence, request, stop, claim)
        steps = changing(lent.sequence, request.changes, reading)
        while True:
            try:
                done = next(steps)
            except StopIteration as end:
                return AnswerScored(request.id, end.value.astype("<f4").tobytes())
            service.send(Progress(request.id, "score", done, 0))
            yield
