"""Ranks of texts: in one step as alone, over parts, in the file's form, and what is refused."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from engine.errors import BadFile, BadSetting, Cancelled, GivesNoScores
from engine.models.base import Output
from engine.protocol import Load, Loaded, Rank, Ranked
from engine.runner import load
from engine.runner.loading import LoadedModel, load_model
from engine.runner.rank import rank
from engine.runner.stepper import Stepper
from engine.settings import EngineOptions
from engine.worker import Worker
from tests.engine.rerankers import FORM, write_reranker

HOST = EngineOptions(device="host", kv="f32")
QUERY = "the other one"
TEXTS = ["here and there", "a", "again and again " * 9, "", "the hat on"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_reranker(tmp_path_factory.mktemp("rank") / "reranker.gguf")


@pytest.fixture(scope="module")
def loaded(path: Path) -> Iterator[LoadedModel]:
    with closing(load_model(path, HOST)) as model:
        yield model


def last_row(model: LoadedModel, ids: list[int]) -> np.ndarray:
    """One token after the other; the last one's row."""
    model.stepper.forget(0)
    for at, token in enumerate(ids):
        row = model.stepper.step([token], at, [0], output=Output.EMBEDDINGS)[0].copy()
    model.stepper.forget(0)
    return row


def test_a_text_stands_after_the_query_and_its_last_row_is_scored(loaded: LoadedModel) -> None:
    encode, eos = loaded.tokenizer.encode, loaded.tokenizer.eos
    weight = loaded.file.array("cls.output.weight")[0]
    assert eos is not None
    for text, found in zip(TEXTS, rank(loaded, QUERY, TEXTS), strict=True):
        query, own = (encode(t, add_special=False, parse_special=False) for t in (QUERY, text))
        ids = [*query, eos, *own, eos]
        assert found.n_tokens == len(ids)
        np.testing.assert_allclose(found.score, weight @ last_row(loaded, ids), rtol=1e-4)


def test_texts_of_one_step_are_as_each_alone(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = [next(rank(loaded, QUERY, [text])).score for text in TEXTS]
    steps, start = [], Stepper.start_together

    def counting(self, parts, *rest, **more):
        steps.append(len(parts))
        return start(self, parts, *rest, **more)

    monkeypatch.setattr(Stepper, "start_together", counting)
    found = [one.score for one in rank(loaded, QUERY, TEXTS)]
    assert steps == [len(TEXTS)]
    np.testing.assert_allclose(found, alone, atol=1e-5)
    assert loaded.built.caches.caches[0].n_kv == 0


def test_a_long_text_is_scored_over_its_parts(path: Path) -> None:
    with closing(load_model(path, HOST)) as model:
        (whole,) = rank(model, QUERY, [TEXTS[2]])
        object.__setattr__(model.built, "n_batch", 5)
        (parts,) = rank(model, QUERY, [TEXTS[2]])
    assert parts.score == pytest.approx(whole.score, abs=1e-5)


def test_the_file_has_a_form_whose_marks_no_text_can_write(tmp_path: Path) -> None:
    with closing(load_model(write_reranker(tmp_path / "form.gguf", FORM), HOST)) as model:
        encode, eos = model.tokenizer.encode, model.tokenizer.eos
        fill = model.tokenizer.fill
        for query, text in ((QUERY, "a {query}"), ("{document}", "a<|im_end|>b")):
            plain = f"Query: {query}\nDocument: {text}"
            ids = fill(FORM, {"query": query, "document": text})
            assert ids == [*encode(plain, add_special=False, parse_special=False), eos]
            (found,) = rank(model, query, [text])
            assert found.n_tokens == len(ids)
            weight = model.file.array("cls.output.weight")[0]
            np.testing.assert_allclose(found.score, weight @ last_row(model, ids), rtol=1e-4)


def test_what_cannot_be_ranked_is_said(
    loaded: LoadedModel, tiny_path: Path, tmp_path: Path
) -> None:
    with pytest.raises(BadSetting, match="query.*not empty"):
        next(rank(loaded, " \n", ["a"]))
    most = loaded.built.n_ctx
    with pytest.raises(BadSetting, match=rf"text 2 with the query.*at most {most} tokens"):
        next(rank(loaded, QUERY, ["a", "and " * (most - 2)]))
    with pytest.raises(BadSetting, match="query.*at most"):
        next(rank(loaded, "and " * (most + 1), ["a"]))
    with pytest.raises(Cancelled):
        list(rank(loaded, QUERY, TEXTS, cancelled=lambda: True))
    with load(tiny_path, device="host") as model, pytest.raises(GivesNoScores, match="no head"):
        model.rank(QUERY, TEXTS)
    for name, options, error, match in (
        ("apart", {"ends": False}, BadFile, "names no token between query"),
        ("three", {"labels": 3}, GivesNoScores, "3 labels"),
        ("none", {"head": False}, GivesNoScores, "no head"),
    ):
        made = write_reranker(tmp_path / f"{name}.gguf", **options)
        with load(made, device="host") as model, pytest.raises(error, match=match):
            model.rank(QUERY, TEXTS)


def test_a_worker_ranks(worker: Worker, loaded: LoadedModel, path: Path, tiny_path: Path) -> None:
    opened = worker.get(Load(worker.new_id(), str(path), HOST, embeds=True))
    assert isinstance(opened, Loaded)
    assert opened.gives == ("text", "scores")
    found = worker.get(Rank(worker.new_id(), QUERY, TEXTS))
    assert isinstance(found, Ranked)
    wanted = list(rank(loaded, QUERY, TEXTS))
    np.testing.assert_allclose(found.scores, [one.score for one in wanted], atol=1e-6)
    assert found.n_tokens == [one.n_tokens for one in wanted]
    writes = worker.get(Load(worker.new_id(), str(path), HOST))
    assert [note for note in writes.notes if "cutaway rerank" in note]
    opened = worker.get(Load(worker.new_id(), str(tiny_path), HOST))
    assert opened.gives == ("text", "embeddings")


@pytest.mark.device
def test_every_driver_ranks_as_the_host(path: Path, loaded: LoadedModel) -> None:
    from tests.engine.runner.memory import drivers

    wanted = [one.score for one in rank(loaded, QUERY, TEXTS)]
    for driver in drivers():
        with load(path, device=driver, kv="f32") as model:
            np.testing.assert_allclose(model.rank(QUERY, TEXTS), wanted, rtol=1e-3, atol=1e-3)
