"""Embeddings of several texts in one step, and what is reserved for many, to the byte."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from engine.kvcache.causal import BITS
from engine.runner.answering.slots import Slots
from engine.runner.api import load
from engine.runner.embed import embed
from engine.runner.loading import load_model
from engine.runner.stepper import Stepper
from engine.settings import EngineOptions
from tests.engine.runner.answering.many import tiny
from tests.engine.runner.memory import check_every_refusal, foreseen, held
from tests.goldens.tiny import write_tiny
from tests.goldens.vision.families import write_single

TEXTS = ["one", "the other thing", "a", "again and again " * 9, "one"]


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_texts_of_one_step_are_as_each_alone(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one step as sequences of their own, which the caches hold no more afterwards; what a
    conversation holds stays.
    """
    path = write_tiny(tmp_path / "tiny.gguf", architecture)
    with load(path, device="host", kv="f32", ctx=128, parallel=2) as model:
        alone = [next(embed(model.loaded, [text])) for text in TEXTS]
        stepper, cache = model.loaded.stepper, model.loaded.built.caches.caches[0]
        stepper.step([5, 6, 7], 0, [2], 1)
        steps, start = [], Stepper.start_together

        def counting(self, parts, *rest, **more):
            steps.append(len(parts))
            return start(self, parts, *rest, **more)

        monkeypatch.setattr(Stepper, "start_together", counting)
        found = list(embed(model.loaded, TEXTS))
        assert steps == [len(TEXTS)]
        for one, other in zip(found, alone, strict=True):
            np.testing.assert_allclose(one.vector, other.vector, atol=1e-5)
            assert one.n_tokens == other.n_tokens
        assert set(cache.cells[:, BITS].tolist()) == {0, 1 << 1}


# One answer at a time is test_placement's and test_memory's.
@pytest.mark.each_value
@pytest.mark.full_cases(r"\[(mllama|gemma3)-1")
@pytest.mark.parametrize("parallel", [1, 4])
@pytest.mark.parametrize("architecture", ["llama", "gemma3", "qwen35", "mamba2", "mllama"])
def test_room_for_many_is_foreseen_to_the_byte(
    architecture: str, parallel: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where it is refused nothing stays."""
    options = EngineOptions("host", 128, parallel=parallel, cells=0)
    cross = architecture == "mllama"
    made = write_single(tmp_path, "mllama") if cross else tiny(tmp_path, architecture)
    with closing(load_model(made, options)) as model:
        assert foreseen(model.dry) == held(model.dry)
        assert len(Slots(model).sequences) == parallel
        caches = [cache.n_cells for cache in model.built.caches.caches]
        assert all(n >= parallel * 128 for n in caches[:1])
    check_every_refusal(made, options, monkeypatch)
