"""One answer by itself, from request to its last event."""

from collections.abc import Callable, Iterator

from engine.protocol import Generate, Reply
from engine.runner.answering.answer import RunningAnswer
from engine.runner.loading import LoadedModel
from engine.runner.sequence import Sequenced
from engine.runner.watch import Watch


def generate(
    model: LoadedModel,
    sequence: Sequenced,
    request: Generate,
    cancelled: Callable[[], bool],
    watch: Watch | None = None,
) -> Iterator[Reply]:
    """Yields the request's events, `Finished` last; `cancelled` is called at each step. `watch`
    computes the answer's tokens.

    Raises as `RunningAnswer`, what its request may raise at once.
    """
    watching = None if watch is None else lambda _: watch
    return _events(RunningAnswer(model, request, cancelled, watching), sequence)


def _events(answer: RunningAnswer, sequence: Sequenced) -> Iterator[Reply]:
    yield from answer.enter(sequence)
    while answer.reason is None:
        yield from answer.step()
    yield from answer.end()
