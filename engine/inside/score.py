"""How likely a model finds an answer that is already there."""

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadSetting, Cancelled
from engine.protocol import Generate, ScoreAnswer
from engine.runner.batch import pieces_of
from engine.runner.edits import SequenceEdits, edits_for
from engine.runner.loading import LoadedModel
from engine.runner.pictures.items import Item
from engine.runner.prompt import make_prompt
from engine.runner.sequence import Sequenced
from engine.sampling.cuts import log_softmax

LogProbs = NDArray[np.float32]
R = TypeVar("R")
Claim = Callable[[Sequence[Item], SequenceEdits], None]


def score_answer(
    model: LoadedModel,
    sequence: Sequenced,
    request: ScoreAnswer,
    cancelled: Callable[[], bool],
    claim: Claim = lambda items, edits: None,
) -> Generator[int, None, LogProbs]:
    """Yields how many tokens are read, of the prompt and of the answer; returns the natural
    log-probabilities of the answer's [tokens]. `claim` gets what the sequence is to hold,
    and its edits.

    Raises `BadSetting`, `ContextFull`, `Cancelled` and what reading a prompt does.
    """
    tokens = request.tokens
    n_vocab = sequence.stepper.built.n_vocab
    for token in tokens:
        if not 0 <= token < n_vocab:
            raise BadSetting("tokens", token, f"ids from 0 to {n_vocab - 1}")
    whole = Generate(
        0,
        messages=request.messages,
        prompt=request.prompt,
        prefix_tokens=tokens,
        when_full="stop",
    )
    items = make_prompt(
        model.tokenizer, model.template, whole, sequence.n_ctx, sequence.viewer
    ).items
    prompt = items[: len(items) - len(tokens)]
    if not (prompt and tokens):
        raise BadSetting("tokens", len(tokens), "at least one, after at least one prompt token")
    edits = edits_for(sequence.stepper.built, request.edits, len(prompt), request.changes)
    claim(items, edits)
    logits = yield from _counted(
        sequence.prefill(prompt[sequence.reuse(prompt, edits=edits) :], cancelled)
    )
    found = [log_softmax(logits, np.array(tokens[:1]))]
    for start, part in pieces_of(tokens[:-1], lambda: sequence.stepper.most_outputs):
        if cancelled():
            raise Cancelled("reading the answer")
        extras = yield from _counted(sequence.extras(part, cancelled))
        rows = sequence.begin_all(part, extras)()
        following = tokens[start + 1 : start + 1 + len(part)]
        found += [log_softmax(r, np.array([t])) for r, t in zip(rows, following, strict=True)]
        yield len(sequence.items)
    return np.concatenate(found).astype(np.float32)


def _counted(steps: Generator[object, None, R]) -> Generator[int, None, R]:
    """Only the counts of a prompt's reading."""
    while True:
        try:
            done = next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
        if isinstance(done, int):
            yield done
