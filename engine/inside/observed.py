"""A step with what its launches leave in memory copied out, and nothing else changed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.errors import CannotProbe
from engine.graph.graph import Graph
from engine.graph.op import VIEW_OPS
from engine.graph.tensor import Tensor
from engine.runner.pictures.items import Item
from engine.runner.sequence import Sequenced
from engine.runner.stepper import Extras, StartedStep
from engine.scheduler.outline import Outline
from engine.scheduler.probes import Probes, ResultKey, named_results
from engine.scheduler.record import Recorder, Values


@dataclass(frozen=True)
class ChosenResults(Probes):
    """Results by their keys."""

    keys: frozenset[ResultKey] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.keys)

    def of(self, graph: Graph) -> Iterator[tuple[ResultKey, Tensor]]:
        return ((key, node) for key, node in named_results(graph) if key in self.keys)


class CaughtStep(Recorder):
    """A step with its plan and its inputs."""

    made: Outline
    inputs: Values

    def given(self, made: Outline, inputs: Values) -> None:
        self.made, self.inputs = made, {tensor: array.copy() for tensor, array in inputs.items()}


def observed(sequence: Sequenced, part: Sequence[Item]) -> tuple[CaughtStep, StartedStep]:
    """The items that follow, computed twice: to learn what the step's launches leave, and with
    these results copied out. The second step has ended. Raises `CannotProbe`.
    """
    plain, caught = CaughtStep(), CaughtStep()
    first = list(sequence.items)
    sequence.begin(part, Extras(), plain)()
    kept = sequence.reuse([*first, part[0]])
    if kept < len(first):  # caches that cannot go back by so little
        read(sequence, first[kept:])
    step = sequence.begin(part, Extras(), caught, left_results(plain.made))
    step()
    return caught, step


def read(sequence: Sequenced, items: Sequence[Item]) -> None:
    """Compute items of which nothing is looked at."""
    for _ in sequence.prefill(items, lambda: False):
        pass


def is_too_large(refused: CannotProbe, n: int) -> bool:
    """True if a step of fewer than `n` tokens may be probed where one of `n` may not."""
    return refused.too_large and n > 1


def left_results(made: Outline) -> ChosenResults:
    """Results that launches leave in memory anyway: the first named one of each storage."""
    written = {node.storage for part in made.splits for node in part.nodes}
    makers = Counter(n.storage for n in made.graph.nodes if n.op not in VIEW_OPS)
    found: dict[Tensor, ResultKey] = {}
    for key, node in named_results(made.graph):
        storage = node.storage
        if storage in written and makers[storage] == 1 and node.nelements == storage.nelements:
            found.setdefault(storage, key)
    return ChosenResults(keys=frozenset(found.values()))
