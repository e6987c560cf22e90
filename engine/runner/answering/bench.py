"""How fast several sequences are read and written together, as llama.cpp's batched bench counts.

Random ids, nothing sampled; what is timed ends with the logits of every sequence in NumPy.
"""

from collections.abc import Callable, Iterator
from time import perf_counter_ns

from engine.errors import BadSetting, Cancelled
from engine.protocol import ParallelTest
from engine.runner.batch import MAX_BATCH
from engine.runner.bench import random_ids
from engine.runner.loading import LoadedModel
from engine.runner.stepper import StepPart

WARM_UP = 2
"""Tokens that each writes before anything is timed: plans are made and kernels built by then."""


def bench_together(
    model: LoadedModel, test: ParallelTest, warm_up: bool, cancelled: Callable[[], bool]
) -> tuple[int, int]:
    """Nanoseconds of reading the prompts and of writing. What the caches held is forgotten.

    Raises `BadSetting`, `Cancelled`.
    """
    built = model.built
    if not 1 <= test.n_sequences <= built.n_sequences:
        expected = f"1 to {built.n_sequences}, for which the model was opened"
        raise BadSetting("parallel", test.n_sequences, expected)
    if test.n_prompt < 1 or test.n_gen < 1 or test.n_prompt + test.n_gen > built.n_ctx:
        expected = f"tokens to read and to write, at most {built.n_ctx} together"
        raise BadSetting("test", test.name, expected)
    if warm_up:
        _timed(model, test, min(WARM_UP, test.n_gen), cancelled)
    return _timed(model, test, test.n_gen, cancelled)


def _timed(
    model: LoadedModel, test: ParallelTest, n_gen: int, cancelled: Callable[[], bool]
) -> tuple[int, int]:
    model.built.caches.clear()
    n, at = test.n_sequences, test.n_prompt
    ids = [random_ids(model, at + n_gen, seed) for seed in range(n)]
    read = [(s, ids[s][:at]) for s in range(1 if test.is_shared else n)]
    begun = perf_counter_ns()
    for parts in _batches(read):
        _compute(model, parts, cancelled)
    if test.is_shared:
        for sequence in range(1, n):
            model.built.caches.share(sequence, 0, at)
    read_ns, begun = perf_counter_ns() - begun, perf_counter_ns()
    for i in range(at, at + n_gen):
        _compute(model, [StepPart([ids[s][i]], i, [0], s) for s in range(n)], cancelled)
    return read_ns, perf_counter_ns() - begun


def _batches(prompts: list[tuple[int, list[int]]]) -> Iterator[list[StepPart]]:
    """Full batches, of as many prompts as that takes; logits behind the last token of each."""
    parts: list[StepPart] = []
    room = MAX_BATCH
    for sequence, ids in prompts:
        done = 0
        while done < len(ids):
            part = ids[done : done + room]
            last = [len(part) - 1] if done + len(part) == len(ids) else []
            parts.append(StepPart(part, done, last, sequence))
            done += len(part)
            room -= len(part)
            if not room:
                yield parts
                parts, room = [], MAX_BATCH
    if parts:
        yield parts


def _compute(model: LoadedModel, parts: list[StepPart], cancelled: Callable[[], bool]) -> None:
    if cancelled():
        raise Cancelled("the benchmark")
    model.stepper.start_together(parts)()
