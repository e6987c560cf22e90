"""Rankings: how well each of some texts fits a query, by the head of a reranker's file."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from engine.errors import BadFile, GivesNoScores
from engine.models.base import Output
from engine.runner.aside import check_length, least_tokens
from engine.runner.loading import LoadedModel
from engine.runner.pooled import check_fits, pooled_in_parts
from engine.tokenizer import Tokenizer
from engine.tokenizer.words import Pause

FORM = "tokenizer.chat_template.rerank"
"""What a file says that a query and a document are to stand in."""


@dataclass(frozen=True)
class TextRank:
    """How well a text fits, more is better: a probability or any number, as the model was trained;
    and its number of tokens, those of the query and around them included.
    """

    score: float
    n_tokens: int


def rank(
    model: LoadedModel,
    query: str,
    texts: Sequence[str],
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[TextRank]:
    """Each text's, in order. Raises as `rank_in_parts`."""
    for part in rank_in_parts(model, query, texts, cancelled):
        yield from part


def rank_in_parts(
    model: LoadedModel,
    query: str,
    texts: Sequence[str],
    cancelled: Callable[[], bool] = lambda: False,
    claim: Callable[[int], None] = lambda _: None,
) -> Iterator[list[TextRank]]:
    """Yield the ranks that each step completes, as `pooled_in_parts`.

    Raises `GivesNoScores` where a model has none, `BadFile` for one that does not say how two texts
    are put together, `BadSetting` for an empty query and for texts that are too long, `Cancelled`.
    """
    built = model.built
    head = built.head
    if head is None or Output.EMBEDDINGS not in built.model.gives:
        raise GivesNoScores(built.arch)
    if not head.ranks:
        raise GivesNoScores(built.arch, head.labels)
    encode = partial(_encoded, model, query, texts)
    length = len(query) + sum(map(len, texts))
    rows = pooled_in_parts(model, encode, length, head.pooling, cancelled, claim, "ranking")
    for part in rows:
        yield [TextRank(float(head.scores(row)[0]), n) for n, row in part]


def _encoded(model: LoadedModel, query: str, texts: Sequence[str], pause: Pause) -> list[list[int]]:
    """Each text's tokens with the query's before them, all of which the model must be able to read:
    in the file's own form, or with the marks of a pair.
    """
    tokenizer, most = model.tokenizer.pausing(pause), model.built.n_ctx
    form = model.file.metadata.get(FORM, str, "")
    if not form and not tokenizer.pair.between:
        problem = "metadata names no token between query and text; convert the model again"
        raise BadFile(model.file.paths[0], problem)
    check_length("query", query, most)
    n_query = least_tokens(tokenizer, query, most)
    check_fits("query", query, max(n_query, 1) if query.strip() else 0, most)
    query_ids = [] if form else tokenizer.encode(query, add_special=False, parse_special=False)
    found: list[list[int]] = []
    for number, text in enumerate(texts, 1):
        name = f"text {number}"
        check_length(name, text, most)
        n = n_query + least_tokens(tokenizer, text, most)
        ids: list[int] = []
        if n <= most:
            ids = _joined(tokenizer, form, query, query_ids, text)
            n = len(ids)
        check_fits(f"{name} with the query", text, n, most)
        found.append(ids)
    return found


def _joined(
    tokenizer: Tokenizer, form: str, query: str, query_ids: Sequence[int], text: str
) -> list[int]:
    """A query and a text as one text's tokens."""
    if form:
        return tokenizer.fill(form, {"query": query, "document": text})
    own = tokenizer.encode(text, add_special=False, parse_special=False)
    before, between, after = tokenizer.pair
    return [*before, *query_ids, *between, *own, *after]
