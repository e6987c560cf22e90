"""What is tried, what is left out, and who wins."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
from msgspec import structs

from engine.backends.opencl.drivers.device import Device, open_device
from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.tuned import CHOICES, Tuned, default
from engine.memory.pools import system_pool
from engine.tuner import search
from engine.tuner.families import TUNED_FAMILIES, families_for
from engine.tuner.search import Contest, Trial

CPU = DeviceTraits(True, 4, 4096, 1 << 15, vector_ints=16)
GPU = DeviceTraits(False, 40, 1024, 1 << 16)


def named(traits: DeviceTraits, name: str) -> list[Tuned]:
    (family,) = (f for f in families_for(traits) if f.name == name)
    return list(family.combinations(traits.tuned, traits))


def test_every_number_belongs_to_one_family() -> None:
    names = [name for family in TUNED_FAMILIES for name in family.names]
    assert sorted(names) == sorted(CHOICES)


def test_all_combinations_are_tried_once_but_the_one_there_is() -> None:
    tried = {(t.ahead, t.tiles) for t in named(CPU, "decode")}
    all_of_them = set(product(CHOICES["ahead"], CHOICES["tiles"]))
    assert tried == all_of_them - {(default().ahead, default().tiles)}
    assert len(named(CPU, "decode")) == len(tried)


def test_what_a_device_cannot_do_is_not_tried() -> None:
    narrow = replace(CPU, vector_ints=8)
    assert {t.panel for t in named(CPU, "prefill")} == {4, 8}
    assert {t.panel for t in named(narrow, "prefill")} == {4}
    assert {t.crossed for t in named(CPU, "products")} == {4, 6, 8}
    assert not named(narrow, "products")
    assert {t.lane_team for t in named(GPU, "decode")} == {2, 4, 16}
    assert {t.lane_team for t in named(replace(GPU, max_work_group=256), "decode")} == {2, 4}
    small = replace(GPU, local_memory=8 * 4 * 32 * 4)
    assert {t.lane_team for t in named(small, "decode")} == {2, 4}
    assert {t.row_team for t in named(replace(GPU, max_work_group=128), "rows")} == {64}


@pytest.fixture
def device() -> Device:
    return open_device()


def contest(device: Device, name: str) -> Contest:
    (family,) = (f for f in families_for(device.info.traits) if f.name == name)
    return Contest(device, family)


def timed(monkeypatch: pytest.MonkeyPatch, seconds: Callable[[Tuned], float]) -> None:
    """Runs as they are, but with times that only depend on the numbers."""

    def alternate(first: search.Runner, second: search.Runner) -> tuple[list[float], list[float]]:
        taken = [seconds(r.backend.info.traits.tuned) for r in (first, second)]
        assert all(r.seconds() > 0 for r in (first, second))
        return [taken[0]] * 3, [taken[1]] * 3

    monkeypatch.setattr(search, "alternate", alternate)


@pytest.mark.device
def test_the_fastest_wins(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each trial is held against the best before it."""
    base = structs.replace(default(), elements=4096, row_team=128)
    times = {1024: 1.0, 2048: 0.5, 4096: 2.0, 8192: 0.7, 64: 1.0, 128: 2.0, 256: 0.5}
    name = "elements" if device.info.traits.is_cpu else "row_team"
    timed(monkeypatch, lambda t: times[getattr(t, name)])
    trials = list(contest(device, "rows").search(base))
    found = [(getattr(t.tuned, name), t.gain, t.better) for t in trials]
    if name == "elements":
        assert found == [(1024, 2.0, True), (2048, 2.0, True), (8192, 0.5 / 0.7, False)]
    else:
        assert found == [(64, 2.0, True), (256, 2.0, True)]


@pytest.mark.device
def test_chance_does_not_win(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    base = default()
    timed(monkeypatch, lambda t: 1.0 if t == base else 0.99)
    trials = list(contest(device, "rows").search(base))
    assert trials
    assert not any(t.better for t in trials)


@pytest.mark.device
def test_real_runs(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SECONDS", 0.1)
    before = dict(system_pool().taken)
    rows = contest(device, "rows")
    trials = list(rows.search(default()))
    assert len(trials) == len(list(rows.family.combinations(default(), device.info.traits)))
    again = rows.compare(default(), trials[0].tuned)
    for trial in (*trials, again):
        assert isinstance(trial, Trial)
        assert 0.01 < trial.speed < 100_000
        assert 0.1 < trial.gain < 10
    assert system_pool().taken == before
