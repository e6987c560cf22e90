"""POST /v1/rerank: how well documents fit a query, as llama-server, Jina and Cohere have it, and
text-embeddings-inference (TEI), whose documents are `texts` and whose answer is a bare array.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

from app.serve.vectors import MOST_INPUTS
from app.serve.web.body import decoded
from app.serve.web.refusal import Refusal, error
from app.serve.web.site import Dialect, HttpCall
from app.serve.web.stream import Reply, json
from engine.protocol import Rank, Ranked

PATHS = ("/v1/rerank", "/v2/rerank", "/v1/reranking", "/rerank", "/reranking")


class Document(Struct):
    """A document as an object."""

    text: str


class RankBody(Struct):
    """A request: with `texts` in TEI's form, else with `documents`."""

    query: str
    documents: list[str | Document] | None = None
    texts: list[str] | None = None
    model: str | None = None
    top_n: Annotated[int, Meta(ge=1)] | None = None
    return_documents: bool = False
    return_text: bool = False


async def rerank(call: HttpCall) -> Reply:
    """Documents and their scores, the best first."""
    body = decoded(call.body, RankBody)
    model = await call.model(body.model)
    field, texts = _texts(body)
    found = await _ranked(call, body.query, field, texts)
    best = found.best(body.top_n)
    if body.texts is not None:
        rows: list[dict[str, Any]] = [{"index": i, "score": found.scores[i]} for i in best]
        if body.return_text:
            rows = [row | {"text": texts[i]} for i, row in zip(best, rows, strict=True)]
        return json(rows)
    results: list[dict[str, Any]] = [{"index": i, "relevance_score": found.scores[i]} for i in best]
    if body.return_documents:
        results = [r | {"document": {"text": texts[i]}} for i, r in zip(best, results, strict=True)]
    total = sum(found.n_tokens)
    usage = {"prompt_tokens": total, "total_tokens": total}
    return json({"model": model.name, "object": "list", "usage": usage, "results": results})


def _texts(body: RankBody) -> tuple[str, list[str]]:
    """The field that holds the documents, and their texts. Raises `Refusal`."""
    if body.texts is not None:
        field, texts = "texts", body.texts
    else:
        documents = body.documents or []
        field, texts = "documents", [one if isinstance(one, str) else one.text for one in documents]
    if not 1 <= len(texts) <= MOST_INPUTS:
        raise Refusal(400, f"{field}: expected 1 to {MOST_INPUTS} texts", param=field)
    return field, texts


async def _ranked(call: HttpCall, query: str, field: str, texts: list[str]) -> Ranked:
    try:
        with await call.gate.turns.enter(1):
            return await call.gate.get(Rank(0, query, texts))
    except Refusal as refusal:
        if refusal.status == 400 and refusal.message.startswith("text "):
            raise Refusal(400, f"{field}: {refusal.message}", param=field) from None
        raise


RANKING = Dialect({("POST", path): rerank for path in PATHS}, error)
