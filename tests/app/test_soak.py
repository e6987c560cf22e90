"""The long look at memory: everything is shown, what grows is found, what is kept is counted."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.state.profile import profile
from engine.settings import EngineOptions
from engine.units import MIB
from tests import soak

HOST = EngineOptions(device="host", ctx=256)


def samples(window: float, engine: float, minutes: float = 15) -> list[soak.Sample]:
    """Of memory that grows by so many MiB a minute, after a beginning that takes 200 more."""
    found = []
    for second in range(0, round(60 * minutes), 2):
        beginning = min(second, 60) / 60 * 200
        grown = [round(MIB * (300 + beginning + each * second / 60)) for each in (window, engine)]
        found.append(soak.Sample(second, *grown, second // 10))
    return found


def test_what_grows_is_found_and_a_beginning_is_no_growth() -> None:
    flat = soak.grown(samples(0, 0))
    assert flat == {"window": 0, "engine": 0}
    leaks = soak.grown(samples(4, 2))
    assert all(leaks[name] > most for name, most in soak.GROWTH.items())


@pytest.mark.full
def test_everything_is_told_and_kept_within_its_bounds(
    qapp: QApplication, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak, "LENGTHS", (700,))  # so that it is looked into
    done = soak.soak(qapp, tiny_path, HOST, 1.0)
    assert done.problems == []
    assert done.n_tokens > 60
    assert {one.answers for one in done.samples} >= {0, 1}
    assert all(one.window > 50 * MIB < one.engine for one in done.samples)
    assert list(soak.told(done.samples))


def test_what_is_kept_beyond_its_bound_is_told(
    qapp: QApplication, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak, "LENGTHS", (60,))
    monkeypatch.setattr(profile, "MOST", 100)
    done = soak.soak(qapp, tiny_path, HOST, 0.5, at_least=6)
    assert "recorded answers: 3 of at most 2" in done.problems
