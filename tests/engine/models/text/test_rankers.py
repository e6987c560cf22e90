"""Heads of rerankers and classifiers against transformers, or llama.cpp where it has no class."""

from collections.abc import Sequence
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from engine.errors import BadFile, GivesNoScores, GivesNoText, OnlyRanks, TensorMismatch
from engine.models.head import Pooling
from engine.runner import load
from engine.runner.api import Model
from engine.runner.loading import load_model
from engine.runner.pooled import pooled_in_parts
from engine.settings import EngineOptions
from tests.engine.models.text.encoders import ENCODERS
from tests.engine.models.text.files import golden, write
from tests.engine.models.text.rankers import RANKERS, with_head
from tests.engine.models.text.rows import ROWS, Row
from tests.engine.models.text.test_rows import first_driver, opened
from tests.engine.runner.memory import drivers
from tests.program import ROOT
from tests.truth.compare import nmse

HOST = EngineOptions(device="host", kv="f32")
each = pytest.mark.parametrize("row", RANKERS, ids=lambda row: row.name)


def scores(model: Model, texts: Sequence[Sequence[int]]) -> np.ndarray:
    """[texts, labels] of tokens, all in one go."""
    head = model.loaded.built.head
    assert head is not None
    ids = [list(one) for one in texts]
    asked = (lambda pause: ids, 0, head.pooling, lambda: False, lambda most: None, "ranking")
    parts = list(pooled_in_parts(model.loaded, *asked))
    assert [n for part in parts for n, _ in part] == [len(one) for one in ids]
    return np.stack([head.scores(row) for part in parts for _, row in part])


@each
def test_on_the_host(row: Row, tmp_path: Path) -> None:
    ids, want = golden(row)
    with opened(write(row, tmp_path), "host", "f32") as model:
        assert nmse(scores(model, ids), want) < 1e-9


@pytest.mark.device
@each
def test_on_a_device(row: Row, tmp_path: Path) -> None:
    ids, want = golden(row)
    with opened(write(row, tmp_path, Kind.F16), first_driver()) as model:
        assert nmse(scores(model, ids), want) < 1e-4


@pytest.mark.full
@pytest.mark.device
@each
def test_on_every_device(row: Row, tmp_path: Path) -> None:
    ids, want = golden(row)
    with opened(write(row, tmp_path, rounded=Kind.Q8_0), "host", "f32") as model:
        exact = scores(model, ids)
    for driver in drivers():
        with opened(write(row, tmp_path, Kind.F16), driver) as model:
            assert nmse(scores(model, ids), want) < 1e-4, driver
        with opened(write(row, tmp_path, Kind.Q8_0), driver) as model:
            assert nmse(scores(model, ids), exact) < 1e-3, driver


@each
def test_each_has_a_fault_to_plant(row: Row) -> None:
    assert (ROOT / row.fault.file).read_text("utf-8").count(row.fault.old) == 1, row.fault


def choosing(folder: Path, labels: Sequence[str] = ("yes", "no"), form: str = "") -> Path:
    """A Qwen3 of the table whose head are two rows of its output matrix."""
    source = write(ROWS["qwen3"], folder)
    output = next(t for t in gguf.GGUFReader(source).tensors if t.name == "output.weight")
    rows = np.array(output.data)[[40, 17]]
    return with_head(source, folder / "choosing.gguf", {"cls.output.weight": rows}, labels, form)


def test_two_rows_of_the_output_choose(tmp_path: Path) -> None:
    """The softmax of transformers' logits of two tokens, at the last one of a text."""
    ids, logits = golden(ROWS["qwen3"])
    pairs = logits[:, -1, [40, 17]].astype(np.float64)
    want = 1 / (1 + np.exp(pairs[:, 1] - pairs[:, 0]))
    with load(choosing(tmp_path), device="host", kv="f32") as model:
        found = scores(model, ids)
        assert model.loaded.built.pooling is Pooling.RANK
    np.testing.assert_allclose(found[:, 0], want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-6)


def test_a_classifier_says_its_labels_and_ranks_nothing(tmp_path: Path) -> None:
    row = next(row for row in RANKERS if row.name == "roberta-labels")
    with load(write(row, tmp_path), device="host") as model:
        head = model.loaded.built.head
        assert head is not None
        assert head.labels == ("against", "neither", "for")
        with pytest.raises(GivesNoScores, match=r"3 labels \('against', 'neither', 'for'\)"):
            model.rank("a", ["b"])


def test_a_reranker_neither_writes_nor_embeds(tmp_path: Path) -> None:
    path = write(RANKERS[0], tmp_path)
    with pytest.raises(OnlyRanks, match="cutaway rerank"):
        load_model(path, HOST)
    with load(path, device="host") as model, pytest.raises(OnlyRanks):
        model.embed(["a"])
    with pytest.raises(GivesNoText):
        load_model(write(ENCODERS[0], tmp_path), HOST)
    with (
        load(write(ENCODERS[0], tmp_path), device="host") as model,
        pytest.raises(GivesNoScores, match=r"no head.*open a reranker"),
    ):
        model.rank("a", ["b"])


def test_a_head_of_another_shape_is_refused(tmp_path: Path) -> None:
    source = write(ENCODERS[0], tmp_path)
    for tensors, labels, problem in (
        ({"cls.output.weight": np.zeros((2, 32), "f4")}, ("a",), r"\[32, 2\]; expected \[32, 1\]"),
        ({"cls.output.weight": np.zeros((2, 32), "f4")}, (), r"expected \[32, 1\]"),
        ({"cls.weight": np.zeros((32, 32), "f4")}, ("a",), r"\[32, 32\]; expected \[32, 1\]"),
        ({"cls.output.weight": np.full((1, 32), np.nan, "f4")}, ("a",), "holds nan"),
    ):
        path = with_head(source, tmp_path / "bad.gguf", tensors, labels)
        with pytest.raises(BadFile, match=problem):
            load(path, device="host")
    path = with_head(source, tmp_path / "bad.gguf", {"cls.bias": np.zeros(32, "f4")}, ())
    with pytest.raises(TensorMismatch, match=r"not used: cls\.bias"):
        load(path, device="host")
