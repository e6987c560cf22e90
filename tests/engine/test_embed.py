"""Embeddings: pooled by the file's word, whole over parts, and nothing left behind."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.errors import BadSetting, Cancelled, OnlyRanks
from engine.models.base import Output
from engine.protocol import Embed, Embedded, Load
from engine.runner import load
from engine.runner.api import Model
from engine.runner.embed import embed
from engine.runner.loading import LoadedModel, load_model
from engine.settings import EngineOptions
from engine.worker import Worker
from tests.goldens.tiny import write_tiny

HOST = EngineOptions(device="host", kv="f32")
TEXT = "the other one is here and there"


def pooling(folder: Path, kind: int) -> Path:
    metadata = {"llama.pooling_type": (kind, gguf.GGUFValueType.UINT32)}
    return write_tiny(folder / f"pooling-{kind}.gguf", "llama", metadata=metadata)


@pytest.fixture(scope="module")
def loaded(tiny_path: Path) -> Iterator[LoadedModel]:
    with closing(load_model(tiny_path, HOST)) as model:
        yield model


def rows_of(model: LoadedModel, text: str) -> np.ndarray:
    """One token after the other, [T, E]."""
    ids = model.tokenizer.encode(text, parse_special=False)
    model.stepper.forget(0)
    rows = [
        model.stepper.step([token], at, [0], output=Output.EMBEDDINGS)[0].copy()
        for at, token in enumerate(ids)
    ]
    model.stepper.forget(0)
    return np.stack(rows).astype(np.float64)


def test_a_causal_model_gives_the_last_token_of_length_1(loaded: LoadedModel) -> None:
    rows = rows_of(loaded, TEXT)
    (one,) = embed(loaded, [TEXT])
    wanted = rows[-1] / np.linalg.norm(rows[-1])
    np.testing.assert_allclose(one.vector, wanted, atol=1e-6)
    assert one.n_tokens == len(rows)
    (raw,) = embed(loaded, [TEXT], normalized=False)
    np.testing.assert_allclose(raw.vector, rows[-1], rtol=1e-4, atol=1e-5)


def test_the_file_says_how_rows_are_pooled(tmp_path: Path) -> None:
    for kind, pooled in ((1, lambda rows: rows.mean(0)), (2, lambda rows: rows[0])):
        with closing(load_model(pooling(tmp_path, kind), HOST)) as model:
            rows = rows_of(model, TEXT)
            (one,) = embed(model, [TEXT], normalized=False)
            np.testing.assert_allclose(one.vector, pooled(rows), rtol=1e-4, atol=1e-5)
    with (
        closing(load_model(pooling(tmp_path, 4), HOST)) as model,
        pytest.raises(OnlyRanks),
    ):
        list(embed(model, [TEXT]))


@pytest.mark.parametrize("kind", [1, 2, 3])
def test_long_texts_are_pooled_over_their_parts(
    kind: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(load_model(pooling(tmp_path, kind), HOST)) as model:
        (whole,) = embed(model, [TEXT])
        object.__setattr__(model.built, "n_batch", 5)
        (parts,) = embed(model, [TEXT])
    np.testing.assert_allclose(parts.vector, whole.vector, atol=1e-6)


def test_a_width_cuts_before_lengths_become_1(loaded: LoadedModel) -> None:
    (whole,), (cut,) = embed(loaded, [TEXT]), embed(loaded, [TEXT], 8)
    wanted = whole.vector[:8] / np.linalg.norm(whole.vector[:8])
    np.testing.assert_allclose(cut.vector, wanted, atol=1e-6)
    for width in (0, 65):
        with pytest.raises(BadSetting, match="1 to 64"):
            list(embed(loaded, [TEXT], width))


def test_texts_that_cannot_be_read_are_refused_before_any_is(loaded: LoadedModel) -> None:
    with pytest.raises(BadSetting, match="text 2"):
        next(embed(loaded, [TEXT, ""]))
    most = loaded.built.n_ctx
    with pytest.raises(BadSetting, match=rf"text 2.*at most {most} tokens"):
        next(embed(loaded, [TEXT, "and " * (most + 1)]))
    with pytest.raises(Cancelled):
        list(embed(loaded, [TEXT], cancelled=lambda: True))
    assert loaded.built.caches.caches[0].n_kv == 0


def test_a_conversation_is_forgotten_and_goes_on(tiny_path: Path) -> None:
    def answer(model: Model) -> str:
        return "".join(model.generate("the other", max_tokens=6))

    with load(tiny_path, device="host") as model:
        answer(model)
        again = model.embed([TEXT, TEXT])
        np.testing.assert_allclose(again[0], again[1], atol=1e-4)  # two sequences of a step
        assert model.conversation.items == []
        assert answer(model)


def test_a_worker_embeds(worker: Worker, loaded: LoadedModel, tiny_path: Path) -> None:
    worker.get(Load(worker.new_id(), str(tiny_path), HOST, embeds=True))
    found = worker.get(Embed(worker.new_id(), [TEXT, "the"], width=16))
    assert isinstance(found, Embedded)
    wanted = [one.vector for one in embed(loaded, [TEXT, "the"], 16)]
    np.testing.assert_allclose(
        np.frombuffer(found.vectors, "<f4").reshape(2, found.width), wanted, atol=1e-6
    )
    assert found.n_tokens == [len(loaded.tokenizer.encode(t)) for t in (TEXT, "the")]
