"""What seeing takes: foreseen to the byte, refused by name, freed again."""

from contextlib import closing
from pathlib import Path

import pytest

from engine.backends.base import MemoryPool
from engine.errors import NoMem
from engine.runner.api import Model
from engine.runner.loading import load_model
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
from tests.engine.runner.pictures.seeing import answer, bring, noise, says, seeing, viewer_of
from tests.goldens.vision.families import write_pair, write_single

VISION = "vision"
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


@pytest.mark.device
@pytest.mark.parametrize("is_single", [False, True], ids=["pair", "single"])
@pytest.mark.parametrize("where", [0, 1, 2])
def test_a_load_takes_what_was_foreseen_and_looking_only_rows_more(
    where: int, is_single: bool, tmp_path: Path
) -> None:
    """All on one device; the tower by name on another; halves, with the output block on a third."""
    one, two = two_devices()
    place = ["", rf"v\..*={two},mm\..*={two}", f"0-3={one},4-6={two},out=host"][where]
    family = "gemma3"
    path = write_single(tmp_path, family) if is_single else write_pair(tmp_path, family)[0]
    options = EngineOptions(device=one, ctx=256, place=place)
    loaded = load_model(path, options)
    with closing(loaded):
        planned = foreseen(loaded.dry)
        assert planned == held(loaded.dry)
        on = {device for device, component, _ in planned if component == VISION}
        assert on == [{one}, {two}, set()][where]
        assert loaded.built.tower is not None
        mapped = {t for t, _ in loaded.dry.mapped} & set(loaded.built.tower.sources)
        assert bool(mapped) == (where == 2)
        model = Model(loaded)
        sequence = Sequenced(loaded.stepper, loaded.viewer)
        part = bring(model, noise(1))
        answer(model, sequence, [says(part, "what is it", bring(model, noise(2)))], n=3)
        more = {("host", VISION, None): 2 * ROWS}
        assert held(loaded.dry) == planned | more
        shown = loaded.dry.memory()
        assert shown.device("host") is not None
    assert not any(pool.taken for pool in pools_of(loaded.backends))


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
