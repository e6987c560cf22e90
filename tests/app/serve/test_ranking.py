"""Reranking over HTTP: each API's form of it, and requests that a model cannot answer."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.runner import load
from tests.app.serve.running import Served, served
from tests.engine.rerankers import write_reranker

QUERY, TEXTS = "the other one", ["here and there", "a", "the hat on", "and again"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_reranker(tmp_path_factory.mktemp("served") / "reranker.gguf")


@pytest.fixture(scope="module")
def ranker(path: Path) -> Iterator[Served]:
    with served(path) as running:
        yield running


@pytest.fixture(scope="module")
def scores(path: Path) -> np.ndarray:
    with load(path, device="host", ctx=256) as model:
        return model.rank(QUERY, TEXTS)


@pytest.mark.parametrize("at", ["/v1/rerank", "/v2/rerank", "/rerank", "/reranking"])
def test_the_best_come_first(at: str, ranker: Served, scores: np.ndarray) -> None:
    body = ranker.post(at, {"model": "tiny", "query": QUERY, "documents": TEXTS}).json()
    assert (body["model"], body["object"]) == ("tiny", "list")
    order = [row["index"] for row in body["results"]]
    assert order == np.argsort(-scores).tolist()
    told = [row["relevance_score"] for row in body["results"]]
    np.testing.assert_allclose(told, scores[order], atol=1e-4)
    used = body["usage"]
    assert used["prompt_tokens"] == used["total_tokens"] > 4 * len(TEXTS)


def test_documents_may_be_objects_and_come_back(ranker: Served, scores: np.ndarray) -> None:
    best = int(scores.argmax())
    documents = [{"text": text} for text in TEXTS]
    asked = {"query": QUERY, "documents": documents, "top_n": 1, "return_documents": True}
    (row,) = ranker.post("/v1/rerank", asked).json()["results"]
    assert (row["index"], row["document"]) == (best, {"text": TEXTS[best]})


def test_texts_are_answered_by_an_array(ranker: Served, scores: np.ndarray) -> None:
    order = np.argsort(-scores).tolist()
    rows = ranker.post("/rerank", {"query": QUERY, "texts": TEXTS}).json()
    assert [row["index"] for row in rows] == order
    assert rows[0].keys() == {"index", "score"}
    rows = ranker.post("/rerank", {"query": QUERY, "texts": TEXTS, "return_text": True}).json()
    assert [row["text"] for row in rows] == [TEXTS[i] for i in order]


@pytest.mark.parametrize(
    ("body", "param", "told"),
    [
        ({"documents": TEXTS}, None, "query"),
        ({"query": 1, "documents": TEXTS}, "query", "Expected str"),
        ({"query": " ", "documents": TEXTS}, "query", "not empty"),
        ({"query": QUERY}, "documents", "expected 1 to 2048 texts"),
        ({"query": QUERY, "texts": []}, "texts", "expected 1 to 2048 texts"),
        ({"query": QUERY, "documents": TEXTS, "top_n": 0}, "top_n", ">= 1"),
        ({"query": QUERY, "documents": ["a", "and " * 300]}, "documents", "text 2 with the query"),
    ],
)
def test_an_error_names_the_field(
    body: dict[str, object], param: str | None, told: str, ranker: Served
) -> None:
    answer = ranker.post("/v1/rerank", body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert told in error["message"]
    assert error["param"] == param


def test_what_a_model_cannot_do_is_refused_with_the_next_step(ranker: Served, tiny: Served) -> None:
    asked = tiny.post("/v1/rerank", {"query": QUERY, "documents": TEXTS})
    assert asked.status_code == 400
    assert "open a reranker" in asked.json()["error"]["message"]
    asked = ranker.post("/v1/embeddings", {"input": "a", "model": "tiny"})
    assert asked.status_code == 400
    assert "/v1/rerank" in asked.json()["error"]["message"]


def test_a_list_says_what_a_model_can_do(ranker: Served, tiny: Served) -> None:
    for server, can in ((ranker, ["completion", "rerank"]), (tiny, ["completion", "embedding"])):
        assert server.get("/v1/models").json()["data"][0]["capabilities"] == can
        assert server.post("/api/show", {"model": "tiny"}).json()["capabilities"][:2] == can
