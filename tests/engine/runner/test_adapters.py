"""Adapters while a model answers: scales by request, and nothing read with others is reused."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.errors import BadSetting
from engine.protocol import (
    AdapterTable,
    Finished,
    Generate,
    ListAdapters,
    Load,
    Loaded,
    Piece,
    Sampling,
    ScaleAdapters,
)
from engine.runner.api import Model, load
from engine.runner.edits import PLAIN, SequenceEdits, with_scales
from engine.runner.records import records
from engine.runner.sequence import Sequenced
from engine.runner.stepper import StepPart
from engine.settings import EngineOptions
from engine.worker import Worker
from tests.adapters import architecture, matrices, write_adapter
from tests.adapters import drawn as drawn_halves
from tests.engine.kept import KeptWorker
from tests.engine.runner.answering.many import ids, tiny
from tests.engine.runner.prefixes import opened, prefilled, restored, save, small
from tests.goldens.tiny import write_tiny

__all__ = ["small"]
N = 90
GREEDY = Sampling(temperature=0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_tiny(tmp_path / "base.gguf", "llama")


@pytest.fixture
def adapter(path: Path) -> str:
    return adapter_of(path)


def adapter_of(path: Path, seed: int = 1) -> str:
    shapes = {n: s for n, s in matrices(path).items() if n.startswith("blk.") and "conv" not in n}
    halves = drawn_halves(shapes, 4, seed)
    return str(write_adapter(path.with_name(f"adapter{seed}.gguf"), architecture(path), halves))


def reads(model: Model, items: list[int], *scales: float) -> np.ndarray:
    """The logits behind the items in an empty sequence with such scales."""
    sequence = Sequenced(model.loaded.stepper)
    sequence.clear()
    sequence.edits = SequenceEdits(scales=scales)
    return prefilled(sequence, list(items)).copy()


def test_a_sequence_goes_on_only_with_its_own_scales(path: Path, adapter: str) -> None:
    items, other = ids(7, N), SequenceEdits(scales=(0.5,))
    with load(path, device="host", kv="f32", lora={adapter: 1.0}) as model:
        sequence = Sequenced(model.loaded.stepper)
        first = prefilled(sequence, list(items)).copy()
        assert sequence.shared(items) == N - 1
        assert sequence.shared(items, other) == 0
        assert sequence.shared(items, SequenceEdits(scales=(1.0,))) == 0
        sequence.reuse(items, edits=other)
        assert sequence.items == []
        half = prefilled(sequence, list(items)).copy()
        assert sequence.shared(items) == N - 1
        assert sequence.shared(items, PLAIN) == 0
        assert np.array_equal(half, reads(model, items, 0.5))
        assert np.array_equal(first, reads(model, items, 1.0))
        assert not np.allclose(first, half)


def test_what_is_on_the_disk_is_of_its_scales(path: Path, adapter: str) -> None:
    """One that is off leaves what the model alone has read."""
    other = adapter_of(path, 2)

    def found(**lora: float) -> int:
        files = {"a": adapter, "b": other}
        with opened(path, kv="f32", lora={files[k]: scale for k, scale in lora.items()}) as model:
            return restored(model, Sequenced(model.loaded.stepper), list(ids(7, N)))

    def keep(**lora: float) -> None:
        files = {"a": adapter, "b": other}
        with opened(path, kv="f32", lora={files[k]: scale for k, scale in lora.items()}) as model:
            sequence = Sequenced(model.loaded.stepper)
            prefilled(sequence, list(ids(7, N))[:-1])
            assert save(model, sequence) == ""

    keep(a=1.0)
    assert found(a=1.0) == N - 1
    assert found(a=1.0, b=0.0) == N - 1
    for lora in ({}, {"a": 0.5}, {"b": 1.0}, {"a": 0.0}, {"a": 1.0, "b": 0.1}):
        assert found(**lora) == 0
    keep()
    assert found(a=0.0) == found() == N - 1
    assert found(b=0.25) == 0


def test_prompts_in_memory_are_of_their_scales(path: Path, adapter: str) -> None:
    """Also of a request's own."""
    items = ids(7, N)
    with opened(path, kv="f32", kept_chats=0, cache_ram=64, lora={adapter: 1.0}) as model:
        prefixes, sequence = model.loaded.prefixes, Sequenced(model.loaded.stepper)
        half = SequenceEdits(scales=(0.5,))
        sequence.reuse(items, edits=half)
        prefilled(sequence, list(items))
        prefixes.remember(sequence)
        sequence.clear()
        assert prefixes.find(items, 0) is None
        assert prefixes.find(items, 0, SequenceEdits(scales=(1.0,))) is None
        assert prefixes.find(items, 0, half) is not None
        model.scale_adapters(0.5)
        assert prefixes.find(items, 0) is not None


@pytest.fixture(params=[d.name for d in list_devices() if d.name.endswith(":0")])
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.each_value
@pytest.mark.parametrize("name", ["llama", "gemma3", "qwen3moe", "qwen35"])
def test_several_scales_in_one_step(name: str, device: str, tmp_path: Path) -> None:
    """Each row has the bits that it has alone."""
    path = tiny(tmp_path, name)
    lora = {adapter_of(path, 1): 0.3, adapter_of(path, 2): 0.1}
    of = [(0.3, 0.1), (0.0, 0.25), (0.1, 0.05)]
    with load(path, device=device, ctx=64, cells=0, parallel=3, lora=lora) as model:
        stepper, found = model.loaded.stepper, []
        texts = [ids(n, 12) for n in (5, 6, 7)]

        def parts(at: int, n: int) -> Iterator[StepPart]:
            for k, (text, scales) in enumerate(zip(texts, of, strict=True)):
                edits = SequenceEdits(scales=scales)
                yield StepPart(text[at : at + n], at, range(n), k, edits)

        for at in range(0, 12, 4):
            rows = stepper.start_together(list(parts(at, 4)))().copy()
            found.append(rows.reshape(3, 4, -1))
        together = np.concatenate(found, 1)
        for k in range(3):
            stepper.forget(0, sequence=k)
        for k in range(3):
            for at in range(12):
                part = list(parts(at, 1))[k]
                row = stepper.start_together([part])()
                np.testing.assert_allclose(row[0], together[k, at], atol=2e-2)
                if name == "llama":
                    np.testing.assert_array_equal(row[0], together[k, at], f"{k} {at}")


def test_scales_of_a_request(path: Path, adapter: str) -> None:
    with load(path, device="host", kv="f32", ctx=64, lora={adapter: 1.0}) as model:
        one = "".join(model.generate("the", max_tokens=8, sampling=GREEDY))
        off = "".join(model.generate("the", max_tokens=8, sampling=GREEDY, lora={}))
        assert one != off
        assert one == "".join(model.generate("the", max_tokens=8, sampling=GREEDY, lora={0: 1}))
        model.scale_adapters(0)
        assert off == "".join(model.generate("the", max_tokens=8, sampling=GREEDY))
        with pytest.raises(BadSetting, match="lora: 3 is not valid; expected a number from 0 to 0"):
            list(model.generate("the", lora={3: 1.0}))
        with pytest.raises(BadSetting, match="lora adapter 0: nan"):
            with_scales(PLAIN, model.loaded.built, {0: float("nan")})
    with (
        load(path, device="host", ctx=64) as model,
        pytest.raises(BadSetting, match="open without adapters"),
    ):
        list(model.generate("the", lora={0: 1.0}))


@pytest.mark.device
def test_they_lie_with_their_matrices(path: Path, adapter: str) -> None:
    """Also where a pattern sends these; records have them in a column of their own."""
    driver = next(d.name for d in list_devices())
    place = r"blk\.1\.ffn_.*weight$=host"
    with load(path, device=driver, ctx=64, lora={adapter: 1.0}, place=place) as model:
        dry, built = model.loaded.dry, model.loaded.built
        [one] = built.adapters
        for matrix, pair in one.pairs.items():
            home = dry.backend_of(matrix)
            assert home.is_host == matrix.name.startswith("blk.1.ffn_")
            assert dry.backend_of(pair.a) is dry.backend_of(pair.b) is home
        rows = [row for row in dry.memory().rows() if row.component == "adapters"]
        assert {(row.device, row.layer, row.status) for row in rows} == {
            *((driver, layer, "planned") for layer in range(3)),
            ("host", 1, "mapped"),
        }
        held = [row for row in records(dry).rows() if row.component == "adapters"]
        assert [(r.device, r.layer, r.size) for r in held] == [
            (r.device, r.layer, r.size) for r in rows
        ]


@pytest.mark.device
def test_the_models_weights_stay_when_an_adapter_is_added(
    worker: Worker, path: Path, adapter: str
) -> None:
    driver = next(d.name for d in list_devices())

    def opened_with(*scales: float) -> str:
        files = dict(zip([adapter], scales, strict=False))
        options = EngineOptions(device=driver, ctx=64, lora=files, prepared=1)
        loaded = worker.get(Load(worker.new_id(), str(path), options))
        assert isinstance(loaded, Loaded)
        return "\n".join(loaded.details)

    assert "reused" not in opened_with()
    assert "reused from the previous model" in opened_with(1.0)
    assert "reused from the previous model" in opened_with()


@pytest.fixture
def worker(kept_worker: KeptWorker) -> Iterator[Worker]:
    yield kept_worker.start()
    kept_worker.leave()


def test_the_worker_scales_them_without_loading(worker: Worker, path: Path, adapter: str) -> None:
    options = EngineOptions(device="host", ctx=64, lora={adapter: 1.0})
    loaded = worker.get(Load(worker.new_id(), str(path), options))
    assert isinstance(loaded, Loaded)
    [one] = loaded.adapters
    assert (one.name, one.scale, one.matrices, one.path) == ("adapter1", 1.0, 21, adapter)
    assert one.size == 4 * 4 * sum(sum(s) for n, s in matrices(path).items() if n[:4] == "blk.")

    def answer(**more: object) -> tuple[str, int]:
        request = Generate(
            worker.new_id(), prompt="the other", sampling=GREEDY, max_tokens=6, endless=True, **more
        )
        *told, end = worker.run(request)
        assert isinstance(end, Finished)
        return "".join(p.text for p in told if isinstance(p, Piece)), end.stats.n_cached

    on, n = answer()
    assert n == 0
    assert answer()[0] == on
    off, n = answer(lora={0: 0.0})
    assert (off != on, n) == (True, 0)
    assert answer() == (on, 0)
    scaled = worker.get(ScaleAdapters(worker.new_id(), [0.0]))
    assert isinstance(scaled, AdapterTable)
    assert scaled.adapters[0].scale == 0.0
    assert answer() == (off, 0)
    assert answer()[1] > 0
    listed = worker.get(ListAdapters(worker.new_id()))
    assert listed.adapters == scaled.adapters
    assert answer()[1] > 0
    assert worker.get(ScaleAdapters(worker.new_id(), [1.0])).adapters[0].scale == 1.0
    assert answer() == (on, 0)
