"""Layers that look at pictures against the reference: logits at once, in parts, after a shift."""

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.errors import BadFile
from engine.gguf import GGUFFile, open_gguf
from engine.gguf.metadata import Metadata
from engine.gguf.metadata import MetadataEntry as Entry
from engine.gguf.values import Array, ValueType
from engine.kvcache.encoded import Entering
from engine.models.build import build_model
from engine.runner import load
from engine.runner.api import Model
from engine.runner.loading import load_model
from engine.runner.pictures.items import before_looking
from engine.runner.sequence import Sequenced
from engine.runner.stepper import Extras
from engine.settings import EngineOptions
from tests.engine.models.vision.test_whole_way import opened as opened_to_see
from tests.engine.models.vision.test_whole_way import prompt_of
from tests.engine.runner.memory import foreseen, held, two_devices
from tests.goldens.vision.families import write_single
from tests.goldens.vision.files.mllama import VOCABULARY
from tests.goldens.vision.store import Case, load_cases
from tests.truth.compare import nmse

IMAGE = VOCABULARY.id("<|image|>")
CASES = load_cases("mllama")


@contextmanager
def opened(folder: Path, device: str = "host") -> Iterator[Model]:
    with load(write_single(folder, "mllama"), device=device, ctx=512, kv="f32") as model:
        yield model


def fed(model: Model, case: Case, size: int = 512) -> np.ndarray:
    """Logits f32 [T, V] of a fresh context, in parts of `size` tokens."""
    stepper, ids = model.loaded.stepper, case.ids
    stepper.forget(0)
    places = np.flatnonzero(ids == IMAGE).tolist()
    made = []
    for start in range(0, len(ids), size):
        part = ids[start : start + size].tolist()
        entering = tuple(
            Entering(seen.rows, place)
            for seen, place in zip(case.seen, places, strict=True)
            if start <= place < start + size
        )
        extras = Extras(entering=entering)
        logits = stepper.step(part, start, range(len(part)), extras=extras)
        made.append(logits[: len(part)].copy())
    return np.concatenate(made)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [512, 7])
def test_logits_are_those_of_the_reference(name: str, size: int, tmp_path: Path) -> None:
    case = CASES[name]
    with opened(tmp_path) as model:
        logits = fed(model, case, size)[-len(case.logits) :]
    assert nmse(logits, case.logits) < 1e-9


@pytest.mark.full_cases(r"\[pocl")
@pytest.mark.parametrize(
    "device", [pytest.param(i.name, marks=pytest.mark.device, id=i.name) for i in list_devices()]
)
def test_logits_on_devices(device: str, tmp_path: Path) -> None:
    case = CASES["two"]
    with opened(tmp_path, device) as model:
        logits = fed(model, case, 7)[-len(case.logits) :]
    assert nmse(logits, case.logits) < 1e-4


def test_a_picture_is_seen_after_the_cache_moved(tmp_path: Path) -> None:
    """Tokens before it go and all that follow move down; it still gives something."""
    case = CASES["wide"]
    place, n = int(np.flatnonzero(case.ids == IMAGE)[0]), len(case.ids)
    assert place > 4
    with opened(tmp_path) as model:
        fed(model, case)
        stepper = model.loaded.stepper
        encoded = stepper.built.caches.encoded
        assert encoded is not None
        stepper.forget(1, 4)
        assert encoded.resumable(0, n - 3) == n - 3
        assert set(encoded.cells[encoded.cells[:, 0] != 0, 1]) == {place - 3}
        seeing = stepper.step([5], n - 3, [0])[0].copy()
        stepper.forget(n - 3)
        encoded.remove(0, 0)
        blind = stepper.step([5], n - 3, [0])[0].copy()
    assert nmse(seeing, blind) > 1e-2


def test_a_forgotten_picture_is_not_seen(tmp_path: Path) -> None:
    case = CASES["one"]
    text = case.ids[case.ids != IMAGE]
    with opened(tmp_path) as model:
        fed(model, case)
        again = fed(model, replace(case, ids=text, seen=()))
        assert (
            model.loaded.stepper.built.caches.encoded.start(np.arange(3), np.zeros(3, int), [])
            is None
        )
    with opened(tmp_path) as model:
        assert np.array_equal(fed(model, replace(case, ids=text, seen=())), again)


def test_layers_and_tensors_go_together(tmp_path: Path) -> None:
    with open_gguf(write_single(tmp_path, "mllama")) as file:
        with_value(file, [1])
        with pytest.raises(BadFile, match=r"are \[1\], the tensors make \[1, 4\]"):
            build_model(file, 64, 16)
        with_value(file, [1, 9])
        with pytest.raises(BadFile, match=r"layers has 9, block_count is 6"):
            build_model(file, 64, 16)


def with_value(file: GGUFFile, layers: list[int]) -> None:
    key = "mllama.attention.cross_attention_layers"
    entries = {name: file.metadata[name] for name in file.metadata}
    data = memoryview(np.array(layers, "<i4").tobytes())
    array = Array(str(file.paths[0]), key, ValueType.INT32, len(layers), data, "<")
    entries[key] = Entry(ValueType.ARRAY, array)
    file.metadata = Metadata(file.metadata.path, entries)


@pytest.mark.device
def test_it_takes_what_was_foreseen_on_two_devices(tmp_path: Path) -> None:
    """Keys and values of pictures are the cache of their layer, on its device."""
    one, two = two_devices()
    path = write_single(tmp_path, "mllama")
    options = EngineOptions(device=f"{one},{two}", ctx=256, place=f"0-2={one},3-5={two},out=host")
    with closing(load_model(path, options)) as model:
        assert foreseen(model.dry) == held(model.dry)
        caches = {(d, i) for d, component, i in held(model.dry) if component == "cache"}
        assert {(one, 1), (two, 4)} < caches
    assert held(model.dry) == {}


def through(steps: Generator[object, None, np.ndarray]) -> np.ndarray:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return np.array(end.value)


def test_another_picture_is_not_taken_for_the_one_that_is_there(tmp_path: Path) -> None:
    """Prompts that differ in a picture's pixels alone share what stands before it, and no more."""
    case = CASES["four"]
    (seen,) = case.seen
    other = replace(seen, picture=255 - seen.picture)
    with opened_to_see(tmp_path, "mllama", is_single=True) as model:
        prompts = [prompt_of(model, replace(case, seen=(each,))).items for each in (seen, other)]
        place = int(np.flatnonzero(case.ids == IMAGE)[0])
        stepper, viewer = model.loaded.stepper, model.loaded.viewer
        sequence = Sequenced(stepper, viewer)
        first = through(sequence.prefill(prompts[0], lambda: False))
        assert sequence.reuse(prompts[0]) == len(prompts[0]) - 1
        assert sequence.reuse(prompts[1]) == place
        second = through(sequence.prefill(prompts[1][place:], lambda: False))
        stepper.forget(0)
        fresh = through(Sequenced(stepper, viewer).prefill(prompts[1], lambda: False))
    assert nmse(second, fresh) < 1e-9
    assert nmse(first, fresh) > 1e-3


def test_a_step_looks_at_one_group_of_pictures(tmp_path: Path) -> None:
    """It is cut off before each picture that follows text, so that its rows find room."""
    with opened_to_see(tmp_path, "mllama", is_single=True) as model:
        for name, parts in (("two", 2), ("together", 1), ("one", 1)):
            items = prompt_of(model, CASES[name]).items
            cuts, begin = 0, 0
            while begin < len(items):
                begin = before_looking(items, begin, len(items))
                cuts += 1
            leading = int(np.flatnonzero(CASES[name].ids == IMAGE)[0] > 0)
            assert cuts == parts + leading
