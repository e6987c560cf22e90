"""After each part of the laboratory a chat is to the bit what it was, and memory too."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.inside.token.library import look
from engine.laboratory.library import features, patch_map, quality, record_texts
from engine.memory.pools import system_pool
from engine.protocol import Edit, Sampling
from engine.runner.api import Model, load
from engine.settings import EngineOptions
from tests.engine.laboratory.test_features import sae

__all__ = ["sae"]
CLEAN, CORRUPT = "the hat is on", "the cat is on"
Part = Callable[[Model, Path, Path], object]


def edits(model: Model, folder: Path, sae: Path) -> object:
    """Also what an answer with a steering vector is."""
    edit = Edit.of("add", "residual", [1], 1.0, np.ones(64))
    return list(model.generate(CLEAN, max_tokens=4, edits=[edit]))


def steering(model: Model, folder: Path, sae: Path) -> object:
    """`steer make` reads what leaves each layer."""
    return [model.dump(text, r"l_out-\d+") for text in (CLEAN, CORRUPT)]


def mapped(model: Model, folder: Path, sae: Path) -> object:
    return patch_map(model, CLEAN, CORRUPT)


def measured(model: Model, folder: Path, sae: Path) -> object:
    path = model.loaded.file.paths[0]
    options = EngineOptions(device=model.loaded.options.device, kv="f32")
    return quality(path, CLEAN * 20, path, ctx=64, options=options)


def recorded(model: Model, folder: Path, sae: Path) -> object:
    (folder / "text.txt").write_text(CLEAN * 20)
    return record_texts(
        model, [folder / "text.txt"], Path(mkdtemp(dir=folder)), "norms", "neurons", layers=[1]
    )


def looked(model: Model, folder: Path, sae: Path) -> object:
    return look(model, CLEAN), features(model, sae, CLEAN)


PARTS: tuple[Part, ...] = (edits, steering, mapped, measured, recorded, looked)


@pytest.fixture(scope="module", params=["host", *(d.name for d in list_devices() if d.default)])
def model(tiny_path: Path, request: pytest.FixtureRequest) -> Iterator[Model]:
    with load(tiny_path, device=request.param, kv="f32", ctx=128) as opened:
        yield opened


def chat(model: Model) -> tuple[str, np.ndarray]:
    text = "".join(model.generate(CLEAN, max_tokens=12, sampling=Sampling(temperature=0)))
    rows = [rows for _, rows in model.logits(model.loaded.tokenizer.encode(CLEAN + text))]
    return text, np.concatenate(rows)


@pytest.mark.each_value
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_a_chat_after_it_is_one_without(
    model: Model, part: Part, tmp_path: Path, sae: Path
) -> None:
    part(model, tmp_path, sae)  # what it keeps for the next time
    said, logits = chat(model)
    free, taken = model.loaded.built.caches.n_free, dict(system_pool().taken)
    part(model, tmp_path, sae)
    assert system_pool().taken == taken
    after = chat(model)
    assert after[0] == said
    np.testing.assert_array_equal(after[1], logits)
    assert system_pool().taken == taken
    assert model.loaded.built.caches.n_free == free
