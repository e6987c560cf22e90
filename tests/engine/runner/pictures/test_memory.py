"""What seeing takes: foreseen to the byte, refused by name, freed again."""

import re
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.device.backend import MemoryPool, Owner
from engine.errors import NoMem
from engine.gguf.formats import F32
from engine.memory.pools import MeasuredPool
from engine.models.vision import TOWER
from engine.protocol import Load
from engine.runner import load
from engine.runner.api import Model
from engine.runner.batch import MAX_BATCH
from engine.runner.loading import load_model
from engine.runner.pictures.beside import open_model
from engine.runner.pictures.compose import shown
from engine.runner.records import pools_of
from engine.runner.sequence import Sequenced
from engine.settings import EngineOptions
from tests.engine.runner.memory import (
    allocated,
    check_every_refusal,
    drivers,
    foreseen,
    held,
    two_devices,
)
from tests.engine.runner.pictures.seeing import (
    answer,
    bring,
    noise,
    says,
    seeing,
    viewer_of,
)
from tests.goldens.vision.families import FAMILIES, PAIR, SINGLE, write_pair, write_single

VISION = "vision"
MIB = 1 << 20
ROWS = 16 * 64 * 4
"""Bytes of a picture's rows."""


def rows_held(pool: MemoryPool) -> int:
    return sum(
        size
        for (_, owner), size in pool.taken.items()
        if owner.component == VISION and owner.layer is None
    )


def host_pool(model: Model) -> MemoryPool:
    return model.loaded.backends[-1].pool


@pytest.mark.sampled(2)
@pytest.mark.full_cases(r"\[[123]-single")
@pytest.mark.device
@pytest.mark.parametrize("is_single", [False, True], ids=["pair", "single"])
@pytest.mark.parametrize("where", [0, 1, 2, 3])
def test_a_load_takes_what_was_foreseen_and_looking_only_rows_more(
    where: int, is_single: bool, tmp_path: Path
) -> None:
    """All on one device; the tower by name on another; halves, with the output block on a third;
    one block of the tower on another.
    """
    one, two = two_devices()
    place = [
        "",
        rf"v\..*={two},mm\..*={two}",
        f"0-3={one},4-6={two},out=host",
        rf"v\.blk\.1\.={two}",
    ][where]
    family = "gemma3"
    path = write_single(tmp_path, family) if is_single else write_pair(tmp_path, family)[0]
    options = EngineOptions(device=one, ctx=256, place=place)
    loaded = load_model(path, options)
    with closing(loaded):
        planned = foreseen(loaded.dry)
        assert planned == held(loaded.dry)
        on = {device for device, component, _ in planned if component == VISION}
        assert on == [{one}, {two}, set(), {one, two}][where]
        assert loaded.built.tower is not None
        mapped = {t for t, _ in loaded.dry.mapped} & set(loaded.built.tower.sources)
        assert bool(mapped) == (where == 2)
        model = Model(loaded)
        sequence = Sequenced(loaded.stepper, loaded.viewer)
        part = bring(model, noise(1))
        answer(model, sequence, [says(part, "what is it", bring(model, noise(2)))], n=3)
        more = {("host", VISION, None): 2 * ROWS}
        assert held(loaded.dry) == planned | more
        assert loaded.dry.memory().device("host") is not None
    assert not any(pool.taken for pool in pools_of(loaded.backends))


@pytest.mark.device
def test_rows_are_the_same_wherever_the_tower_is(tmp_path: Path) -> None:
    one, two = two_devices()
    path, _ = write_pair(tmp_path, "gemma3")

    def rows(place: str) -> np.ndarray:
        with load(path, device=one, ctx=256, kv="f32", place=place) as model:
            viewer = viewer_of(model)
            picture = shown(model.loaded.tokenizer, viewer, bring(model, noise(1)))
            assert [step.block for step in viewer.encode(picture, lambda: False)] == [0, 1, 2, 0]
            return viewer.store.take(picture).rows.copy()

    expected = rows("")
    assert np.abs(expected).max() > 0.1
    for place in (rf"v\..*={two}", rf"v\.blk\.1\.={two}", r"v\.blk\.0\.=host,mm\..*=host"):
        error = np.square(rows(place) - expected).sum() / np.square(expected).sum()
        assert error < 1e-9, place


class Crowded:
    """A model that sees and a device that is short of half of its tower."""

    def __init__(self, path: Path, device: str) -> None:
        with allocated(path, EngineOptions(device=device, ctx=256)) as placed:
            taken = foreseen(placed.dry)
        self.tower = sum(size for (_, component, _), size in taken.items() if component == VISION)
        self.budget = sum(n for (name, *_), n in taken.items() if name == device) - self.tower // 2
        self.path = path

    def layers_and_tower(
        self, options: EngineOptions
    ) -> tuple[set[str], set[str], tuple[str, ...]]:
        """Where they are after a load, which takes what was foreseen; and the reasons."""
        with closing(load_model(self.path, replace(options, ctx=256))) as loaded:
            planned = foreseen(loaded.dry)
            assert planned == held(loaded.dry)
            records = loaded.dry.memory().devices
            homes = {record.name for record in records if record.vision.size}
            reasons = loaded.dry.placement.reasons
            assert set(reasons) <= set(loaded.describe(Load(1, "", options)).details)
            return set(loaded.dry.placement.layers), homes, reasons


@pytest.mark.device
@pytest.mark.parametrize("is_single", [False, True], ids=["pair", "single"])
def test_the_tower_moves_before_layers_do(is_single: bool, tmp_path: Path) -> None:
    one, two = two_devices()
    write = write_single if is_single else lambda *to: write_pair(*to)[0]
    crowded = Crowded(write(tmp_path, "gemma3"), one)
    size = f"{crowded.tower / MIB:.1f} MiB"
    said = f"takes the vision tower, {size}, so that the output block need not leave"
    for rest in (two, "host"):
        short = EngineOptions(device=f"{one},{rest}", budget={one: crowded.budget})
        layers, tower, reasons = crowded.layers_and_tower(short)
        assert (layers, tower) == ({one}, {rest})
        assert reasons[-1] == f"{rest} {said}"
    # A byte for each that was missing, and it stays.
    enough = {one: crowded.budget + crowded.tower - crowded.tower // 2}
    layers, tower, reasons = crowded.layers_and_tower(
        EngineOptions(device=f"{one},{two}", budget=enough)
    )
    assert (layers, tower) == ({one}, {one})
    assert "vision" not in "".join(reasons)


@pytest.mark.device
def test_the_tower_goes_to_the_next_device_before_layers_do(tmp_path: Path) -> None:
    one, two = two_devices()
    crowded = Crowded(write_pair(tmp_path, "gemma3")[0], one)
    budget = {one: crowded.budget, two: crowded.budget * 9 // 10}
    options = EngineOptions(device=f"{one},{two},host", budget=budget)
    layers, tower, reasons = crowded.layers_and_tower(options)
    assert (layers, tower) == ({one}, {two})
    assert "layers are on 1 device instead of 2" in reasons[-1]


@pytest.mark.device
@pytest.mark.parametrize("has_room", [True, False])
def test_the_tower_leaves_a_device_that_has_less_than_it_says(
    has_room: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the other one takes it; else layers leave, as the output block is pinned."""
    one, two = two_devices()
    crowded = Crowded(write_pair(tmp_path, "gemma3")[0], one)
    take = MeasuredPool.take

    def refuse(pool: MeasuredPool, device: str, owner: Owner, size: int) -> None:
        own = sum(n for (name, _), n in pool.taken.items() if name == device)
        no_tower = device == two and owner.component == VISION and not has_room
        if no_tower or (device == one and own + size > crowded.budget):
            raise NoMem(device, owner.component, size, crowded.budget - own, layer=owner.layer)
        take(pool, device, owner, size)

    monkeypatch.setattr(MeasuredPool, "take", refuse)
    budget = {one: 3 * crowded.budget}
    options = EngineOptions(device=f"{one},{two}", budget=budget, place=f"out={one}")
    layers, tower, reasons = crowded.layers_and_tower(options)
    expected = ({one}, {two}) if has_room else ({one, two}, {one})
    assert (layers, tower) == expected
    assert any("has less memory than it reports" in reason for reason in reasons) == has_room


def test_every_tensor_of_a_tower_moves_with_it(tmp_path: Path) -> None:
    for family in FAMILIES:
        paths = [write_pair(tmp_path, family)[0]] if family in PAIR else []
        paths += [write_single(tmp_path / "one", family)] if family in SINGLE else []
        for path in paths:
            with ExitStack() as stack:
                options = EngineOptions(ctx=64)
                built = open_model(path, options, MAX_BATCH, F32, stack).built
            assert built.tower is not None
            towers = {t for t in built.sources if re.search(TOWER, t.name)}
            assert towers == set(built.tower.sources), path


@pytest.mark.device
def test_a_tower_that_was_named_stays_where_it_was_put(tmp_path: Path) -> None:
    one, two = two_devices()
    crowded = Crowded(write_pair(tmp_path, "gemma3")[0], one)
    budget = {one: crowded.budget}
    place = rf"v\..*={one},mm\..*={one}"
    options = EngineOptions(device=f"{one},{two}", budget=budget, place=place)
    layers, tower, reasons = crowded.layers_and_tower(options)
    assert tower == {one}
    assert two in layers
    assert "as set by the user" in reasons[-1]


@pytest.mark.device
def test_every_allocation_may_be_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = write_pair(tmp_path, "gemma3")
    options = EngineOptions(device=drivers()[0], ctx=256)
    assert check_every_refusal(path, options, monkeypatch) > 10


@pytest.mark.device
def test_a_budget_without_room_for_the_tower_names_it(tmp_path: Path) -> None:
    path, _ = write_pair(tmp_path, "gemma3")
    device = drivers()[0]
    with allocated(path, EngineOptions(device=device, ctx=256)) as placed:
        wanted = list(placed.dry.wanted())
    at = next(i for i, w in enumerate(wanted) if w.owner.component == VISION)
    before = sum(w.size for w in wanted[:at] if w.backend.name == device)
    options = EngineOptions(device=device, ctx=256, budget={device: before + 1000})
    with allocated(path, options) as placed:
        assert isinstance(placed.failure, NoMem)
        assert (placed.failure.component, placed.failure.device) == (VISION, device)
    blind = EngineOptions(device=device, ctx=256, mmproj="none")
    with allocated(path, blind) as placed:
        assert placed.failure is None
        assert not any(w.owner.component == VISION for w in placed.dry.wanted())


def test_rows_are_bounded_and_the_longest_unused_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with seeing(tmp_path, "gemma3") as model:
        store = viewer_of(model).store
        monkeypatch.setattr(store, "_most", 2 * ROWS)
        parts = [bring(model, noise(i)) for i in range(3)]
        sequence = Sequenced(model.loaded.stepper, model.loaded.viewer)
        for i, expected in ((0, 1), (1, 2), (0, 2), (2, 2)):
            answer(model, sequence, [says("x" * (i + 1), parts[i])], n=1)
            assert store.size == rows_held(host_pool(model)) == expected * ROWS
        _, end = answer(model, sequence, [says("now ", parts[0])], n=1)
        assert end.stats.encode_s == 0  # was used later than the one that went
        _, end = answer(model, sequence, [says("now ", parts[1])], n=1)
        assert end.stats.encode_s > 0
        pool = host_pool(model)
    assert rows_held(pool) == 0


def test_without_room_for_rows_older_ones_go_and_then_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with seeing(tmp_path, "gemma3") as model:
        sequence = Sequenced(model.loaded.stepper, model.loaded.viewer)
        parts = [bring(model, noise(i)) for i in range(2)]
        answer(model, sequence, [says(parts[0], "?")], n=1)
        pool = host_pool(model)
        with monkeypatch.context() as patch:
            patch.setattr(pool, "limit", pool.used)  # room for one, where the other was
            answer(model, sequence, [says(parts[1], "!")], n=1)
            assert rows_held(pool) == ROWS
            patch.setattr(pool, "limit", pool.used - ROWS)
            with pytest.raises(NoMem, match="vision rows of pictures"):
                answer(model, sequence, [says(parts[0], "?")], n=1)
            assert rows_held(pool) == 0
        tokens, _ = answer(model, sequence, [says(parts[1], "!")])
        model.loaded.stepper.forget(0)
        fresh = Sequenced(model.loaded.stepper, model.loaded.viewer)
        assert answer(model, fresh, [says(parts[1], "!")])[0] == tokens
