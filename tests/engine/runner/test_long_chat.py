"""Memory over a whole chat: every plan that may come fits what was reserved when it began."""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFValueType

from engine.layers.step import Pass
from engine.models.build import CELL_STEP, BuiltModel, StepShape
from engine.runner import load
from engine.runner.batch import MAX_BATCH, bucket_of
from engine.runner.loading import load_model
from engine.runner.sequence import Sequenced
from engine.scheduler.plan import KEPT
from engine.settings import KV_TYPES, EngineOptions
from tests.engine.runner.memory import drivers, foreseen, held, roomed
from tests.goldens.tiny import Value, write_tiny

BUCKETS = sorted({bucket_of(n) for n in range(1, MAX_BATCH + 1)})


def context(architecture: str, n: int) -> dict[str, Value]:
    """What the model was trained for."""
    return {f"{architecture}.context_length": (n, GGUFValueType.UINT32)}


def depths(built: BuiltModel) -> Iterator[tuple[int, ...]]:
    """The KV buckets of a chat that grows to the whole context."""
    n = CELL_STEP
    while True:
        yield built.buckets([min(n, cache.n_cells) for cache in built.caches.caches])
        if n >= built.n_ctx:
            return
        n *= 2


def options(device: str, n_layer: int, **more: object) -> EngineOptions:
    """On one device, or with halves on two."""
    if "+" not in device:
        return EngineOptions(device=device, **more)  # type: ignore[arg-type]
    one, two = device.split("+")
    place = f"0-{n_layer // 2}={one},{n_layer // 2 + 1}-{n_layer - 1}={two},out=host"
    return EngineOptions(device=one, place=place, **more)  # type: ignore[arg-type]


DEVICES = ["host", *drivers(), *(["+".join(drivers()[:2])] if len(drivers()) > 1 else [])]


def check_every_plan(path: Path, wanted: EngineOptions) -> None:
    with roomed(path, wanted) as (placed, room):
        assert placed.failure is None
        before = held(placed.dry)
        assert before == foreseen(placed.dry)
        stepper, built = room.stepper, placed.dry.built
        for cells in depths(built):
            for n in BUCKETS:
                _, graph = built.build(StepShape(n, 1, cells), stepper.fused_attention)
                stepper.planner.reserve(graph)
                assert held(placed.dry) == before, (n, cells)
        built.caches.start(np.arange(20, dtype=np.int32), 0)
        stepper.forget(4, 9)
        assert held(placed.dry) == before


# Each device, and each type of keys and values on one of them; the rest by hand.
USUAL = {*((device, "f16") for device in DEVICES), *((DEVICES[-1], kv) for kv in KV_TYPES)}
CASES = [
    pytest.param(device, kv, marks=() if (device, kv) in USUAL else pytest.mark.full)
    for device in DEVICES
    for kv in KV_TYPES
]


@pytest.mark.sampled(2)
@pytest.mark.full_cases(r"\[(pocl|intel:0\+)")
@pytest.mark.parametrize(("device", "kv"), CASES)
def test_every_plan_of_a_chat_fits(tmp_path: Path, device: str, kv: str) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", "gemma3", metadata=context("gemma3", 1024))
    for ctx in (64, 1024):
        check_every_plan(path, options(device, 7, ctx=ctx, kv=kv))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("device", DEVICES)
def test_without_fused_attention_too(tmp_path: Path, device: str) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", "llama", metadata=context("llama", 1024))
    check_every_plan(path, options(device, 3, ctx=1024, flash_attention=False))


@pytest.mark.full
@pytest.mark.model_file
@pytest.mark.parametrize("kv", KV_TYPES)
@pytest.mark.parametrize("device", DEVICES[1:])
def test_real_models(smollm2_path: Path, gemma3_path: Path, device: str, kv: str) -> None:
    for path, n_layer in ((smollm2_path, 30), (gemma3_path, 18)):
        for ctx in (512, 8192):
            check_every_plan(path, options(device, n_layer, ctx=ctx, kv=kv))


@pytest.mark.parametrize("device", DEVICES[1:])
def test_a_budget_that_fits_the_plan_survives_a_shift(tmp_path: Path, device: str) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", "llama", metadata=context("llama", 4096))
    wanted = options(device, 3, ctx=4096)
    with roomed(path, wanted) as (placed, _):
        budget: Counter[str] = Counter()
        for (name, _, _), size in foreseen(placed.dry).items():
            budget[name] += size
    with closing(load_model(path, replace(wanted, budget=dict(budget)))) as model:
        sequence = Sequenced(model.stepper)
        tokens = [4 + i % 300 for i in range(600)]
        for _ in sequence.prefill(tokens, lambda: False):
            pass
        model.stepper.forget(4, 50)
        sequence.items[4:50] = []
        model.stepper.step([5], len(sequence.items), [0])
        assert held(model.dry) == foreseen(model.dry)


def test_what_belongs_to_a_plan_goes_with_it(tiny_path: Path) -> None:
    """A chat makes plans for ever; the numbers of old ones' inputs are not kept."""
    with load(tiny_path, device="host", ctx=300) as model:
        stepper = model.loaded.stepper
        for n in BUCKETS[: KEPT + 2]:
            stepper.step([5] * n, 0, [n - 1])
            stepper.forget(0)
        assert len(BUCKETS[: KEPT + 2]) > KEPT
        gc.collect()
        mine = [one for one in gc.get_objects() if type(one) is Pass]
        assert len(mine) <= KEPT
