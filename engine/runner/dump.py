"""A text's results as numbers: a prompt is computed, and tokens behind it, with probes."""

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass

from engine.errors import BadSetting, Cancelled, CannotProbe
from engine.protocol import ChatMessage, Edit, Generate
from engine.runner.batch import MAX_BATCH
from engine.runner.edits import SequenceEdits, edits_for
from engine.runner.loading import LoadedModel
from engine.runner.pictures.items import Item, before_group, before_looking
from engine.runner.pictures.viewer import Encoding
from engine.runner.prompt import make_prompt
from engine.runner.sequence import Sequenced
from engine.runner.stepper import Logits, StartedStep
from engine.scheduler.probes import Probed, Probes, named_results
from engine.scheduler.record import UNRECORDED

_LAYER = re.compile(r"-\d+$")


@dataclass(frozen=True)
class ProbedStep:
    """Results of a step over these items, the first of them at position `first`."""

    first: int
    items: Sequence[Item]
    results: Sequence[Probed]
    logits: Logits


def dump(
    model: LoadedModel,
    sequence: Sequenced,
    probes: Probes,
    messages: Sequence[ChatMessage] = (),
    prompt: str | None = None,
    n_tokens: int = 0,
    cancelled: Callable[[], bool] = lambda: False,
    edits: Sequence[Edit] = (),
    ids: list[int] | None = None,
) -> Iterator[ProbedStep | Encoding]:
    """Yields a step for each part of the prompt, as large as the probes' memory allows, and one for
    each of `n_tokens` greedy tokens behind it, as far as the answer goes.

    The sequence is empty afterwards, and probes hold no memory. Raises `BadSetting` where nothing
    has such a name, `CannotProbe`, `Cancelled`, and as `make_prompt`.
    """
    request = Generate(
        0, messages=list(messages), prompt=prompt, prompt_tokens=ids, when_full="stop"
    )
    arguments = (model.tokenizer, model.template, request, sequence.n_ctx, sequence.viewer)
    items = make_prompt(*arguments, model.built.model.start).items
    if len(items) + n_tokens > sequence.n_ctx:
        room = f"at most {sequence.n_ctx - len(items)} after the prompt of {len(items)}"
        raise BadSetting("steps", n_tokens, f"{room} in a context of {sequence.n_ctx}")
    made = edits_for(model.built, edits, len(items))
    _check(model, probes, made)
    sequence.reuse((), edits=made)
    try:
        logits = yield from _prompt(sequence, probes, items, cancelled)
        for _ in range(n_tokens):
            token = int(logits.argmax())
            if token in model.tokenizer.eog:
                return
            if cancelled():
                raise Cancelled("the dump")
            computed = _found(sequence, [token], sequence.start(token, UNRECORDED, probes))
            logits = computed.logits
            yield computed
    finally:
        sequence.stepper.end_probes()
        sequence.clear()


def _prompt(
    sequence: Sequenced, probes: Probes, items: Sequence[Item], cancelled: Callable[[], bool]
) -> Generator[ProbedStep | Encoding, None, Logits]:
    done, most = 0, MAX_BATCH
    while True:
        if cancelled():
            raise Cancelled("the dump")
        end = before_group(items, min(done + most, len(items)))
        end = before_looking(items, done, end)
        part = items[done:end]
        extras = yield from sequence.extras(part, cancelled)
        try:
            step = sequence.begin(part, extras, probes=probes)
        except CannotProbe as error:
            most = len(part) // 2
            if not error.too_large or before_group(items, done + most) <= done:
                raise
            continue
        made = _found(sequence, part, step)
        yield made
        done = end
        if done == len(items):
            return made.logits


def _found(sequence: Sequenced, part: Sequence[Item], step: StartedStep) -> ProbedStep:
    first = len(sequence.items)
    logits = step()
    return ProbedStep(first, part, step.probed(), logits)


def _check(model: LoadedModel, probes: Probes, edits: SequenceEdits) -> None:
    """Raise `BadSetting` unless the probes name a result of this model, with these edits."""
    graph = model.stepper.one_token(edits).graph
    if next(probes.of(graph), None) is None:
        names = (_LAYER.sub("-N", key.name) for key, _ in named_results(graph))
        known = ", ".join(dict.fromkeys(names))
        expected = f"a regular expression that whole names match; results are {known}"
        raise BadSetting("tensors", ", ".join(probes.patterns), expected)
