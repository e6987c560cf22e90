"""Background jobs: results, errors, progress and cancelling, all in the window's thread."""

import logging
import threading
import time
from collections.abc import Iterator

import pytest
import shiboken6
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from app.work import Work, close_jobs
from engine.errors import BadFile

PATIENCE = 60  # seconds until what hangs is given up


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    close_jobs()
    assert set(threading.enumerate()) <= before


@pytest.fixture
def parent(qapp: object) -> QObject:
    return QObject()


def test_result(qtbot: QtBot, parent: QObject) -> None:
    main, heard = threading.current_thread(), []

    def work(a: int, b: int) -> int:
        assert threading.current_thread() is not main
        return a + b

    def done(result: int) -> None:
        assert threading.current_thread() is main
        heard.append(result)

    Work(work, 2, 3).then(done).start(parent)
    qtbot.waitUntil(lambda: heard == [5])


def test_errors_are_one_line(
    qtbot: QtBot, parent: QObject, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def raise_it(error: Exception) -> None:
        raise error

    Work(raise_it, BadFile("a.gguf", "no such file")).fail(heard.append).start(parent)
    qtbot.waitUntil(lambda: len(heard) == 1)
    assert heard == ["a.gguf: no such file"]
    Work(raise_it, PermissionError(13, "Permission denied", "b.gguf")).fail(heard.append).start(
        parent
    )
    qtbot.waitUntil(lambda: len(heard) == 2)
    assert heard.pop() == "b.gguf: Permission denied"
    assert caplog.records == []
    Work(raise_it, KeyError("x")).fail(heard.append).start(parent)
    qtbot.waitUntil(lambda: len(heard) == 2)
    assert heard[1] == "unexpected KeyError: 'x'"
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info


def test_progress_is_the_latest_and_before_the_result(qtbot: QtBot, parent: QObject) -> None:
    heard: list[object] = []

    def count(job: Work) -> str:
        for n in range(10_000):
            job.report(n, 10_000)
        return "done"

    work = Work.polling(count).then(heard.append)
    work.progress(lambda n, total: heard.append(n)).start(parent)
    qtbot.waitUntil(lambda: "done" in heard)
    numbers = heard[:-1]
    assert heard[-1] == "done"
    assert numbers[-1] == 9999
    assert numbers == sorted(numbers)  # type: ignore[type-var]
    assert len(numbers) < 5000


def test_cancel_is_quick_and_final(qtbot: QtBot, parent: QObject) -> None:
    heard: list[object] = []
    ended = threading.Event()

    def forever(job: Work) -> None:
        while not job.cancelled:
            job.report(1)
            time.sleep(0.01)
        ended.set()

    work = Work.polling(forever).then(heard.append).fail(heard.append).progress(heard.append)
    work.start(parent)
    qtbot.waitUntil(lambda: bool(heard))
    heard.clear()
    work.cancel()
    assert ended.wait(PATIENCE)
    work.cancel()
    qtbot.wait(50)
    assert heard == []


def test_nobody_is_called_for_a_parent_that_is_gone(qtbot: QtBot, parent: QObject) -> None:
    heard: list[object] = []
    go = threading.Event()
    Work(go.wait).then(heard.append).start(parent)
    shiboken6.delete(parent)
    go.set()
    qtbot.wait(50)
    assert heard == []


def test_close_cancels_what_runs(parent: QObject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.work.PATIENCE", 1e6)

    def forever(job: Work) -> None:
        while not job.cancelled:
            time.sleep(0.01)

    for _ in range(5):
        Work.polling(forever).start(parent)
    close_jobs()  # else they would run for ever


def test_close_does_not_wait_for_one_that_does_not_listen(
    parent: QObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.work.PATIENCE", 0.1)
    go, gone = threading.Event(), threading.Event()

    def deaf() -> None:
        go.wait()
        gone.set()

    Work(deaf).start(parent)
    close_jobs()
    assert not gone.is_set()
    go.set()
    assert gone.wait(PATIENCE)
