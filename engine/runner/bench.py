"""How fast a model reads and writes, by llama-bench's convention: random ids, nothing sampled.

What is timed ends with the logits of the last token (in generation of every token) in NumPy.
"""

from collections.abc import Callable, Iterator
from time import perf_counter_ns

import numpy as np

from engine.errors import BadSetting, Cancelled
from engine.protocol import BenchTest
from engine.runner.loading import LoadedModel
from engine.runner.pictures.items import Shown
from engine.runner.pictures.viewer import Viewer
from engine.runner.sequence import Sequenced


def bench(
    model: LoadedModel,
    sequence: Sequenced,
    test: BenchTest,
    repetitions: int,
    warm_up: bool,
    cancelled: Callable[[], bool],
) -> Iterator[int]:
    """Yields nanoseconds per repetition; a warm-up is one more, not measured, before them.

    Raises `BadSetting`, `Cancelled`.
    """
    total = test.n_prompt + test.n_gen
    if total < 1 or min(test.n_prompt, test.n_gen, test.n_depth) < 0:
        raise BadSetting("test", f"pp{test.n_prompt}+tg{test.n_gen}", "tokens to time")
    if total + test.n_depth > sequence.n_ctx:
        expected = f"at most the context of {sequence.n_ctx} tokens in all"
        raise BadSetting("test", test.name, expected)
    for i in range(-warm_up, repetitions):
        fill(model, sequence, test.n_depth, cancelled)
        taken = _run(model, sequence, test, i + 1, cancelled)
        if i >= 0:
            yield taken


def bench_picture(
    viewer: Viewer,
    picture: Shown,
    repetitions: int,
    warm_up: bool,
    cancelled: Callable[[], bool],
) -> Iterator[int]:
    """Yields nanoseconds per repetition: resizing and the tower, of all views of a picture that is
    decoded. Raises `Cancelled`, `UnknownPictures`, `NoMem`.
    """
    for i in range(-warm_up, repetitions):
        viewer.store.clear()
        viewer.album.picture(picture.digest)
        start = perf_counter_ns()
        for _ in viewer.encode(picture, cancelled):
            pass
        if i >= 0:
            yield perf_counter_ns() - start


def fill(
    model: LoadedModel, sequence: Sequenced, depth: int, cancelled: Callable[[], bool]
) -> None:
    """Leave exactly `depth` tokens in the caches, always the same; cached ones are reused."""
    tokens = random_ids(model, depth, seed=depth)
    kept = sequence.reuse([*tokens, -1])
    if kept < depth:
        for _ in sequence.prefill(tokens[kept:], cancelled):
            pass
    sequence.keep()  # to come back to it after a test


def random_ids(model: LoadedModel, n: int, seed: int) -> list[int]:
    """`n` ids, the first a BOS where the file adds one."""
    ids = np.random.default_rng(seed).integers(0, model.built.n_vocab, n).tolist()
    bos = model.tokenizer.bos
    return [bos, *ids[1:]] if n and model.tokenizer.add_bos and bos is not None else ids


def _run(
    model: LoadedModel,
    sequence: Sequenced,
    test: BenchTest,
    seed: int,
    cancelled: Callable[[], bool],
) -> int:
    ids = random_ids(model, test.n_prompt + test.n_gen, seed)
    start = perf_counter_ns()
    if test.n_prompt:
        whole = model.built.n_batch  # as llama-bench, however long a step takes
        for _ in sequence.prefill(ids[: test.n_prompt], cancelled, most=whole):
            pass
    for token in ids[test.n_prompt :]:
        if cancelled():
            raise Cancelled("the benchmark")
        sequence.append(token)
    return perf_counter_ns() - start
