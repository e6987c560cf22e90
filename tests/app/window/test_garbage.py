"""Who deletes what nobody holds any more."""

import gc
import threading
from collections.abc import Iterator

import pytest
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.window import program
from app.window.program import GarbageCollector
from app.work import Work
from tests.app.helpers.seeing import until

MANY = 200_000


class Circle:
    """Holds itself, and tells which thread deletes it."""

    def __init__(self, told: list[threading.Thread]) -> None:
        self.own, self.told = self, told

    def __del__(self) -> None:
        self.told.append(threading.current_thread())


@pytest.fixture
def collector(qapp: QApplication) -> Iterator[GarbageCollector]:
    gc.enable()
    made = GarbageCollector()
    yield made
    made.stop()
    made.deleteLater()


def test_a_job_that_makes_many_objects_deletes_none_of_the_window(
    collector: GarbageCollector,
) -> None:
    told: list[threading.Thread] = []
    done: list[list[list[int]]] = []

    def make() -> list[list[int]]:
        return [[n] for n in range(MANY)]

    gc.collect()
    Circle(told)
    Work(make).then(done.append).start(collector)
    until(lambda: told and done)
    assert told == [threading.main_thread()]


def test_all_is_searched_rarely_where_that_takes_long(
    collector: GarbageCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected: list[int] = []
    now = [100.0]

    def collect(generation: int) -> None:
        collected.append(generation)
        now[0] += 0.02 if generation == 2 else 0.001

    monkeypatch.setattr(program, "perf_counter", lambda: now[0])
    monkeypatch.setattr(gc, "collect", collect)
    monkeypatch.setattr(gc, "get_threshold", lambda: (700, 10, 10))
    for count, after in (
        ((10, 0, 0), []),
        ((701, 10, 10), [0]),
        ((701, 11, 11), [0, 2]),
        ((701, 11, 11), [0, 2, 1]),
    ):
        monkeypatch.setattr(gc, "get_count", lambda count=count: count)
        collector.look()
        assert collected == after
    now[0] += 2.0
    collector.look()
    assert collected[-1] == 2


def test_python_searches_again_once_the_window_is_gone(collector: GarbageCollector) -> None:
    assert not gc.isenabled()
    collector.stop()
    QTest.qWait(2 * program.EVERY_MS)
    assert gc.isenabled()
