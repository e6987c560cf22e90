"""Two texts against each other: how far every result of one is from the same of the other."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadSetting, Cancelled, CannotProbe
from engine.graph.tensor import Tensor
from engine.inside.observed import is_too_large, observed
from engine.inside.results import result_parts
from engine.inside.strip import layer_of
from engine.models.axes import Axes, counts_outputs, counts_tokens
from engine.protocol import (
    ComparedText,
    CompareTexts,
    Generate,
    PairedResult,
    Progress,
    ResultPart,
    TextsCompared,
    TokenPair,
)
from engine.runner.edits import SequenceEdits, edits_for
from engine.runner.loading import LoadedModel
from engine.runner.pictures.items import Item
from engine.runner.prompt import make_prompt
from engine.runner.sequence import Sequenced
from engine.scheduler.probes import Probed, ResultKey
from engine.tokenizer import Tokenizer

MOST_TOKENS = 32
"""Of each text, from its end on."""

DIFFERS = 1e-4
"""NMSE of a row: as far as rounding may take the results of a whole model."""

Floats = NDArray[np.float32]


class _Rows(NamedTuple):
    """Rows of a result [n, row length], the first of which belongs to the token at `first`."""

    one: Probed
    first: int
    values: Floats


def compare_texts(
    model: LoadedModel,
    sequence: Sequenced,
    request: CompareTexts,
    cancelled: Callable[[], bool],
    claim: Callable[[Sequence[Item]], None] = lambda _: None,
) -> Iterator[Progress | ResultPart | TextsCompared | None]:
    """Yields how far it is, what `numbers` names, then the reply, and None where others may compute
    meanwhile. The sequence is empty afterwards; `claim` receives what it is to hold.

    Raises `BadSetting` for pictures, `CannotProbe`, `Cancelled`, and as `make_prompt`.
    """
    sides = (request.text, request.other)
    texts = [text_tokens(model, sequence, text) for text in sides]
    edits = [
        edits_for(model.built, side.edits, len(tokens))
        for side, tokens in zip(sides, texts, strict=True)
    ]
    claim(max(texts, key=len))
    most, last_rows = MOST_TOKENS, list[dict[ResultKey, _Rows]]()
    while len(last_rows) < len(texts):
        if cancelled():
            raise Cancelled("the comparison")
        tokens = texts[len(last_rows)]
        try:
            last_rows.append((yield from _last_step(sequence, tokens, most, edits[len(last_rows)])))
        except CannotProbe as refused:
            if not is_too_large(refused, most):
                raise
            most //= 2
            continue
        finally:
            sequence.stepper.end_probes()
            sequence.clear()
        yield Progress(request.id, "score", len(last_rows), len(texts))
    pairs = paired(texts[0], texts[1], most)
    found = [
        _matched(rows, last_rows[1], pairs)
        for rows in last_rows[0].values()
        if rows.one.key in last_rows[1]
    ]
    for one in found:
        if request.numbers == (one.one.key.name, one.one.key.occurrence):
            for step, values in enumerate((one.values, one.other)):
                yield from result_parts(request.id, step, [one.one._replace(values=values)])
    rows = [_row(one) for one in found]
    first = next((i for i, row in enumerate(rows) if largest_error(row) > DIFFERS), None)
    pieces = [text_pieces(model.tokenizer, tokens) for tokens in texts]
    shown = [TokenPair(a, b, pieces[0][a], pieces[1][b]) for a, b in pairs]
    yield TextsCompared(request.id, rows, first, shown)


def paired(tokens: Sequence[int], other: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Places that are compared, among the last `most` of each: from the start on as long as the
    texts are the same; of what is left the last with the last, and so on backwards.
    """
    alike = 0
    while alike < min(len(tokens), len(other)) and tokens[alike] == other[alike]:
        alike += 1
    rest = min(len(tokens), len(other)) - alike
    pairs = [(i, i) for i in range(alike)]
    pairs += [(len(tokens) - i, len(other) - i) for i in range(rest, 0, -1)]
    return [(a, b) for a, b in pairs if a >= len(tokens) - most and b >= len(other) - most]


def text_tokens(model: LoadedModel, sequence: Sequenced, text: ComparedText) -> list[int]:
    """Tokens of a text or a chat. Raises `BadSetting` for pictures, and as `make_prompt`."""
    request = Generate(
        0,
        messages=text.messages,
        prompt=text.prompt,
        prefix=text.prefix,
        prefix_tokens=text.prefix_tokens,
        tools=text.tools,
    )
    prompt = make_prompt(model.tokenizer, model.template, request, sequence.n_ctx, sequence.viewer)
    tokens = [item for item in prompt.items if isinstance(item, int)]
    if len(tokens) < len(prompt.items):
        raise BadSetting("prompt", "pictures", "text only, to compare results")
    return tokens


def _last_step(
    sequence: Sequenced, tokens: Sequence[int], most: int, edits: SequenceEdits
) -> Generator[None, None, dict[ResultKey, _Rows]]:
    """Results of the last tokens, by token; the tokens before are read plainly, with a
    pause behind each part.
    """
    begin = max(0, len(tokens) - most)
    sequence.reuse((), edits=edits)
    if begin:
        for _ in sequence.prefill(tokens[:begin], lambda: False):
            yield
    _, step = observed(sequence, tokens[begin:])
    found = {}
    for one in step.probed():
        rows = by_token(one.values, one.node, step.axes)
        if rows is not None:
            found[one.key] = _Rows(one, len(tokens) - len(rows), rows.copy())
    return found


def by_token(values: Floats, node: Tensor, axes: Axes) -> Floats | None:
    """[tokens or outputs, what each has]; None of what counts neither. The outputs are the last."""
    for axis in axes.get(node, ()):
        if axis.of in (counts_tokens, counts_outputs):
            at = values.ndim - 1 - axis.dim
            n = values.shape[at] // axis.each
            apart = values.reshape(*values.shape[:at], n, axis.each, *values.shape[at + 1 :])
            return np.moveaxis(apart, at, 0).reshape(n, -1)
    return None


@dataclass(frozen=True)
class _Matched:
    """Rows of pairs [n, row length], from number `first` of the pairs on; none where the lengths
    are others.
    """

    one: Probed
    first: int
    values: Floats
    other: Floats


def _matched(
    rows: _Rows, others: Mapping[ResultKey, _Rows], pairs: Sequence[tuple[int, int]]
) -> _Matched:
    other = others[rows.one.key]
    known = [n for n, (a, b) in enumerate(pairs) if a >= rows.first and b >= other.first]
    if rows.values.shape[1] != other.values.shape[1]:
        known = []
    return _Matched(
        rows.one,
        known[0] if known else 0,
        rows.values[[pairs[n][0] - rows.first for n in known]],
        other.values[[pairs[n][1] - other.first for n in known]],
    )


def _row(found: _Matched) -> PairedResult:
    one = found.one
    about = one.key.name, one.key.occurrence, layer_of(one.key.name), one.device, found.first
    if not found.values.size:
        return PairedResult(*about, None, None, b"", b"")
    a, b = found.values.astype(np.float64), found.other.astype(np.float64)
    off, whole = np.square(b - a).sum(axis=1), np.square(a).sum(axis=1)
    shared, length = (a * b).sum(axis=1), np.square(b).sum(axis=1)
    errors, cosines = _share(off, whole), _share(shared, np.sqrt(whole * length))
    return PairedResult(
        *about,
        float(_share(off.sum(), whole.sum())),
        float(_share(shared.sum(), np.sqrt(whole.sum() * length.sum()))),
        errors.astype("<f4").tobytes(),
        cosines.astype("<f4").tobytes(),
    )


def largest_error(row: PairedResult) -> float:
    """The largest error of any pair: over all rows a few massive activations hide the others."""
    return float(np.frombuffer(row.errors, "<f4").max(initial=0))


def _share(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Nothing of nothing is nothing."""
    return np.where(part == 0, 0.0, part / np.maximum(whole, 1e-300))


def text_pieces(tokenizer: Tokenizer, tokens: Sequence[int]) -> list[str]:
    """The text of each token."""
    stream = tokenizer.stream(special=True, whole=True)
    return [stream.push(token) for token in tokens]
