"""Encoders against transformers: every row of a text, which enters whole."""

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from engine.errors import GivesNoText
from engine.models.base import Output
from engine.runner import load
from engine.runner.api import Model
from engine.runner.loading import load_model
from engine.settings import EngineOptions
from tests.engine.models.text.files import golden, write
from tests.engine.models.text.rows import Fault, Row
from tests.engine.models.text.test_rows import first_driver, opened
from tests.engine.runner.memory import drivers
from tests.truth.compare import nmse

TEXT = "engine/models/text"
ENCODERS = [
    Row(
        *("bert", "bert", "learned positions, segments, biases, gelu by erf"),
        Fault(f"{TEXT}/bert.py", "gated = GELU_ERF", "from engine.layers.spec import GELU as gated"),
        launches=0,
    ),
    Row(
        *("nomic-bert", "nomic-bert", "rotary positions, a gated feed-forward"),
        Fault(f"{TEXT}/nomic_bert.py", "neox=True", "neox=False"),
        launches=0,
    ),
    Row(
        *("modern-bert", "modern-bert", "windows on both sides, a first layer without a norm"),
        Fault(f"{TEXT}/modern_bert.py", "self.params.window // 2", "self.params.window // 2 - 1"),
        launches=0,
    ),
    Row(
        *("gemma-embedding", "gemma-embedding", "windows on both sides, two bases"),
        Fault(f"{TEXT}/gemma_embedding.py", "params.window // 2", "params.window"),
        launches=0,
    ),
]
each = pytest.mark.parametrize("row", ENCODERS, ids=lambda row: row.name)


def hidden(model: Model, ids: np.ndarray, n: int = 96) -> np.ndarray:
    """[n, E] of a text's first n tokens."""
    step = model.loaded.stepper.step
    return step(ids[:n].tolist(), 0, range(n), output=Output.EMBEDDINGS).copy()


@each
def test_on_the_host(row: Row, tmp_path: Path) -> None:
    ids, want = golden(row)
    with opened(write(row, tmp_path), "host", "f32") as model:
        for one, rows in zip(ids, want, strict=True):
            assert nmse(hidden(model, one), rows) < 1e-10


@each
def test_what_pads_a_text_is_not_seen(row: Row, tmp_path: Path) -> None:
    """65 tokens are computed as 96; a text alone, as its rows say, with nothing behind."""
    ids, _ = golden(row)
    with opened(write(row, tmp_path), "host", "f32") as model:
        padded = hidden(model, ids[0], 65)
        model.loaded.stepper.step(ids[1].tolist(), 0, [0], output=Output.EMBEDDINGS)
        assert nmse(hidden(model, ids[0], 65), padded) == 0
        plan = model.loaded.built.build(65, 65, ())
        assert plan[1].outputs[0].shape[1] == 65


@pytest.mark.device
@each
def test_on_a_device(row: Row, tmp_path: Path) -> None:
    ids, want = golden(row)
    with opened(write(row, tmp_path, Kind.F16), first_driver()) as model:
        assert nmse(hidden(model, ids[1]), want[1]) < 1e-5


@pytest.mark.full
@pytest.mark.device
@each
def test_on_every_device(row: Row, tmp_path: Path) -> None:
    ids, want = golden(row)
    with opened(write(row, tmp_path, rounded=Kind.Q8_0), "host", "f32") as model:
        exact = hidden(model, ids[0])
    for driver in drivers():
        with opened(write(row, tmp_path, Kind.F16), driver) as model:
            assert nmse(hidden(model, ids[0]), want[0]) < 1e-5, driver
        with opened(write(row, tmp_path, Kind.Q8_0), driver) as model:
            assert nmse(hidden(model, ids[0]), exact) < 1e-4, driver


def test_they_embed_and_do_not_write(tmp_path: Path) -> None:
    path = write(ENCODERS[0], tmp_path)
    with pytest.raises(GivesNoText):
        load_model(path, EngineOptions(device="host"))
    with load(path, device="host", kv="f32") as model:
        ids = model.loaded.tokenizer.encode("abcabc", parse_special=False)
        rows = hidden(model, np.asarray(ids), len(ids))
        (found,) = model.embed(["abcabc"], normalized=False)
    np.testing.assert_allclose(found, rows.mean(0), rtol=1e-5, atol=1e-6)
