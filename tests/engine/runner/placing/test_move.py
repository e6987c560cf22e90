"""An open model goes elsewhere and its conversation with it; where that fails, nothing changed."""

import random
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from numpy.typing import NDArray

from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.buffers import OpenCLBuffer
from engine.device.backend import Upload
from engine.errors import BadSetting, Cancelled, DeviceError, NeedsReload, NoMem
from engine.graph.tensor import Tensor
from engine.memory.pools import listen
from engine.protocol import MemoryEvent
from engine.runner.api import load
from engine.runner.loading import LoadedModel, load_model
from engine.runner.placing.move import move
from engine.runner.records import pools_of
from engine.settings import EngineOptions
from tests.engine.runner.memory import Refusals, chunks, foreseen, held, two_devices
from tests.engine.runner.pictures.seeing import (
    answer,
    bring,
    noise,
    says,
    sequence_of,
    viewer_of,
)
from tests.goldens.tiny import write_tiny
from tests.goldens.vision.families import write_pair

pytestmark = [pytest.mark.device, pytest.mark.full_cases(r"\[gemma3")]
Places = tuple[str, str]
KINDS = {"ffn_": Kind.Q8_0, "attn": Kind.Q4_0}
TOKENS = [5, 9, 200, 31, 77, 12, 8, 150, 44, 3, 99, 61]


@pytest.fixture(scope="module")
def devices() -> Places:
    return two_devices()


@pytest.fixture
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_tiny(tmp_path / "m.gguf", getattr(request, "param", "llama"), KINDS)


@pytest.fixture
def model(path: Path, devices: Places) -> Iterator[LoadedModel]:
    """On two devices, with a context of some tokens."""
    one, two = devices
    options = EngineOptions(device=f"{one},{two}", ctx=64, place=f"0-1={one},out={one}")
    with closing(load_model(path, replace(options, place=rule(path, one, two, 1)))) as loaded:
        loaded.stepper.step(TOKENS, 0, [len(TOKENS) - 1])
        yield loaded


def rule(path: Path, one: str, two: str, first: int) -> str:
    """Layers below `first` on one device, all others on the other."""
    with closing(load_model(path, EngineOptions(device="host", ctx=64))) as loaded:
        last = loaded.built.n_layer - 1
    return f"0-{first - 1}={one},{first}-{last}={two},out={one}"


def next_logits(model: LoadedModel) -> NDArray[np.float32]:
    """After the context and one token more, which is forgotten again."""
    logits = model.stepper.step([17], len(TOKENS), [0])
    model.stepper.forget(len(TOKENS))
    return logits


def caches(model: LoadedModel) -> dict[str, bytes]:
    """What each cache holds in the cells in use."""
    placed = model.stepper.planner.placed
    leaves = [leaf for layer in model.built.layers if layer for leaf in layer.leaves]
    return {
        t.name: placed[t]
        .buffer.read(placed[t].offset, len(TOKENS) * t.nbytes // t.shape[1])
        .tobytes()
        for t in leaves
    }


def where(model: LoadedModel) -> dict[Tensor, tuple[str, str]]:
    """Device and layout of each weight and cache that is allocated."""
    placed = model.room.placed
    return {t: (at.buffer.type.device, at.buffer.type.layout) for t, at in placed.items()}


def nmse(x: NDArray[np.float32], reference: NDArray[np.float32]) -> float:
    return float(((x - reference) ** 2).sum() / (reference**2).sum())


def uploads(patch: pytest.MonkeyPatch, before: Callable[[str], None]) -> None:
    """Hear of each weight before it is uploaded."""
    real = OpenCLBackend.upload

    def upload(self: OpenCLBackend, weights: Iterable[Upload]) -> Generator[int, None, None]:
        def heard() -> Iterator[Upload]:
            for weight in weights:
                before(self.name)
                yield weight

        return real(self, heard())

    patch.setattr(OpenCLBackend, "upload", upload)


def rules(model: LoadedModel, devices: Places, count: int) -> list[str]:
    source, names = random.Random(5), [*devices, "host"]
    found = []
    for _ in range(count):
        parts = [f"{i}={source.choice(names)}" for i in range(model.built.n_layer)]
        parts.append(f"out={source.choice(names)}")
        if source.random() < 0.6:
            parts.append(
                f"{source.choice(['ffn_up', 'attn_q.weight', 'norm'])}={source.choice(names)}"
            )
        found.append(",".join(parts))
    return found


def swapped(model: LoadedModel, devices: Places) -> EngineOptions:
    """Every layer on the other device, but for some weights."""
    one, two = devices
    layers = model.dry.placement.layers[:-1]
    parts = [f"{i}={one if layer == two else two}" for i, layer in enumerate(layers)]
    place = ",".join([*parts, f"out={two}", f"attn_k.weight={one}", "attn_v.weight=host"])
    return replace(model.options, place=place)


@pytest.mark.parametrize("path", ["llama", "gemma3"], indirect=True)
def test_wherever_it_goes_it_answers_alike(
    model: LoadedModel, devices: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what moved is uploaded, keys and values stay bit for bit, memory is as foreseen."""
    told: list[str] = []
    uploads(monkeypatch, told.append)
    logits, kept, options = next_logits(model), caches(model), model.options
    for place in rules(model, devices, 6):
        told.clear()
        before = {
            t: (at.buffer.type.device, at.buffer.type.layout) for t, at in model.room.placed.items()
        }
        moved = move(model, replace(options, place=place))
        assert caches(model) == kept
        assert nmse(next_logits(model), logits) < 1e-4
        assert held(model.dry) == foreseen(model.dry)
        assert [w.size for w in model.dry.arenas] == chunks(model.stepper)
        weights = [t for t in model.room.placed if t in model.built.sources]
        lies = {
            t: (at.buffer.type.device, at.buffer.type.layout) for t, at in model.room.placed.items()
        }
        new = [t for t in weights if before.get(t) != lies[t]]
        assert moved.n_uploaded == len(new) == len(told)
        assert moved.uploaded_bytes == sum(t.nbytes for t in new)
        assert model.options.place == place
    assert move(model, model.options) == (0, 0, 0)
    model.stepper.forget(0)
    again = model.stepper.step([*TOKENS, 17], 0, [len(TOKENS)])
    assert nmse(again, logits) < 1e-4


def test_no_more_memory_than_before_and_what_is_new(model: LoadedModel, devices: Places) -> None:
    """In the middle of the move what goes is there twice, and nothing else."""
    one, two = devices
    held_before = sum(held(model.dry).values())
    events: list[MemoryEvent] = []
    stop = listen(events.append)
    try:
        moved = move(model, replace(model.options, place=model.options.place + f",0={two}"))
    finally:
        stop()
    after = sum(held(model.dry).values())
    largest = max(event.used for event in events)
    new = sum(event.size for event in events if event.kind == "allocate")
    assert largest == held_before + new  # nothing is freed before all is there
    assert new < moved.uploaded_bytes + moved.copied_bytes + after // 2
    whole = {w.owner.layer for w in model.dry.weights if w.owner.layer != 0}
    assert not whole & {e.layer for e in events if e.component == "weights"}, "others stayed"


def unchanged(model: LoadedModel) -> Callable[[], None]:
    """Call it after a failure: everything is as it was."""
    logits, kept, memory, options = (
        next_logits(model),
        caches(model),
        held(model.dry),
        model.options,
    )
    dry, devices = model.dry, model.devices

    def check() -> None:
        assert held(model.dry) == memory
        assert caches(model) == kept
        assert np.array_equal(next_logits(model), logits)
        assert (model.dry, model.options, model.devices) == (dry, options, devices)

    return check


def test_a_refusal_at_any_allocation_changes_nothing(
    model: LoadedModel, devices: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = swapped(model, devices)
    check = unchanged(model)
    nth = 0
    while True:
        nth += 1
        with monkeypatch.context() as patch:
            refusals = Refusals(patch, nth)
            try:
                move(model, elsewhere)
            except NoMem as refused:
                named = (refused.device, refused.component, refused.layer)
                assert named == refusals.refused
            else:
                break
        check()
    assert nth > 4
    assert model.options == elsewhere


def test_an_error_at_any_write_changes_nothing(
    model: LoadedModel, devices: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = swapped(model, devices)
    check, real = unchanged(model), OpenCLBuffer.write
    counts = Counter[str]()
    for nth in range(1, 1000):

        def write(self: OpenCLBuffer, *args: object, nth: int = nth) -> None:
            counts["write"] += 1
            if counts["write"] == nth:
                raise DeviceError(self.type.device, "planted")
            real(self, *args)  # type: ignore[arg-type]

        counts.clear()
        with monkeypatch.context() as patch:
            patch.setattr(OpenCLBuffer, "write", write)
            try:
                move(model, elsewhere)
            except DeviceError:
                assert counts["write"] == nth
            else:
                break
        check()
    assert nth > 6


def test_a_cancel_at_any_time_changes_nothing(model: LoadedModel, devices: Places) -> None:
    elsewhere = swapped(model, devices)
    check = unchanged(model)
    done: list[tuple[int, int]] = []
    for nth in range(1, 1000):
        answers = iter([False] * (nth - 1) + [True] + [False] * 1000)
        done.clear()
        try:
            move(
                model, elsewhere, lambda _, n, of: done.append((n, of)), answers.__next__
            )  # fmt: skip
        except Cancelled:
            check()
        else:
            break
    assert nth > 6
    loads = [one for one in done if one[1] == done[0][1]]
    assert loads[0][0] == 0
    assert loads[-1][0] == loads[-1][1] or loads == sorted(loads)


def test_a_kernel_that_cannot_be_built_changes_nothing(
    model: LoadedModel, devices: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it where memory of graphs would have been taken over."""
    little = replace(model.options, place=f"{model.options.place},blk.0.attn_q={devices[1]}")
    check = unchanged(model)

    def compile(*_: object) -> None:
        raise DeviceError("it", "planted")

    for options in (swapped(model, devices), little):
        with monkeypatch.context() as patch:
            patch.setattr(OpenCLBackend, "compile", compile)
            with pytest.raises(DeviceError, match="planted"):
                move(model, options)
        check()
    arenas = model.stepper.planner.chunks
    move(model, little)
    assert any(chunk in arenas for chunk in model.stepper.planner.chunks)
    assert held(model.dry) == foreseen(model.dry)


def test_what_cannot_change_is_refused_in_a_sentence(model: LoadedModel) -> None:
    check = unchanged(model)
    for options, words in (
        (replace(model.options, ctx=128), "--ctx cannot change while"),
        (replace(model.options, ctx=128, kv="q8_0"), "--ctx and --kv cannot change while"),
        (replace(model.options, mmproj="none"), "--mmproj cannot"),
    ):
        with pytest.raises(NeedsReload, match=words):
            move(model, options)
        check()
    with pytest.raises(BadSetting):
        move(model, replace(model.options, place="nothing_so_named=host"))
    check()


def test_devices_come_and_go(path: Path, devices: Places) -> None:
    one, two = devices
    with closing(load_model(path, EngineOptions(device=one, ctx=64))) as model:
        model.stepper.step(TOKENS, 0, [len(TOKENS) - 1])
        logits = next_logits(model)
        move(model, replace(model.options, place=f"0-1={two}"))
        assert model.dry.placement.layers[:2] == (two, two)
        assert nmse(next_logits(model), logits) < 1e-4
        move(model, replace(model.options, device=two, place=""))
        assert set(model.dry.placement.layers) == {two}
        assert [b.name for b in model.devices.backends] == [two, "host"]
        assert nmse(next_logits(model), logits) < 1e-4
        pools = pools_of(model.backends)
    assert not any(pool.taken for pool in pools)


def test_a_tower_moves_too(tmp_path: Path, devices: Places) -> None:
    """And makes of a new picture what it made where it was."""
    one, two = devices
    path, _ = write_pair(tmp_path, "gemma3")
    here = f"out={one},^v\\.={one},^mm\\.={one}"
    options = EngineOptions(device=f"{one},{two}", place=here, ctx=512)
    with load(path, device=options.device, place=here, ctx=512) as model:
        loaded, picture = model.loaded, noise(3)
        chat = [says("what is ", bring(model, picture), "?")]
        before = answer(model, sequence_of(model), chat)[0]
        viewer_of(model).store.clear()
        assert loaded.built.tower is not None
        tower = [t for t in loaded.room.placed if t in loaded.built.tower.sources]
        moved = move(loaded, replace(options, place=here.replace(f"v\\.={one}", f"v\\.={two}")))
        vision = [t for t in tower if t.name.startswith("v.")]
        assert moved.n_uploaded == len(vision)
        assert {where(loaded)[t][0] for t in vision} == {two}
        assert {where(loaded)[t][0] for t in tower if t not in vision} == {one}
        bring(model, picture)
        assert answer(model, sequence_of(model), chat)[0] == before
