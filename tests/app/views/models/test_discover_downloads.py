"""Downloads of the page that searches, and what it shows of a Hub that does not help."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.fetch.quants import HeaderPlan, find_quant
from app.fetch.search import RepoFile
from app.state.models.downloads import Download
from app.state.workbench import Workbench
from app.views.models.discover import DiscoverView, in_short
from app.work import close_jobs
from engine.units import GB, MIB
from tests.app.helpers.fake_hub import FakeHub
from tests.app.rest import come_to_rest

NAME = "o/slow:Q8_0"


@pytest.fixture
def page(bench: Workbench, hub: FakeHub, qtbot: QtBot) -> Iterator[DiscoverView]:
    content = bytes(range(256)) * 4096
    file = hub.add("o/slow", {"m-Q8_0.gguf": content}).files["m-Q8_0.gguf"]
    file.seconds_a_chunk = 0.05
    page = DiscoverView(bench)
    qtbot.addWidget(page)
    page.resize(1280, 800)
    page.show()
    yield page
    for name in bench.downloads.items:
        bench.downloads.pause(name)
    page.state.cancel()
    close_jobs()  # while the Hub is still there


def search(page: DiscoverView, words: str) -> None:
    page.words.setFocus()
    page.words.setText(words)
    QTest.keyClick(page.words, Qt.Key.Key_Return)


def press(button: QPushButton) -> None:
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def begin(page: DiscoverView, bench: Workbench, qtbot: QtBot) -> None:
    """Open the repository and download until some of it has come."""
    search(page, "o/slow:Q8_0")
    qtbot.waitUntil(lambda: page.state.repo_state == "done")
    press(page.repo.download.get)
    qtbot.waitUntil(lambda: bench.downloads.items[NAME].done > 0)


def test_pause_resume_and_cancel(
    page: DiscoverView, bench: Workbench, hub: FakeHub, qtbot: QtBot
) -> None:
    begin(page, bench, qtbot)
    bar = page.repo.download
    assert page.repo.parts.text() == "Q8_0 · 1 MB · kept in the cache of Hugging Face"
    assert bar.progress.isVisible()
    assert not bar.get.isVisible()
    press(bar.pause)
    qtbot.waitUntil(lambda: bar.get.text() == "Resume")
    assert bar.text.text().startswith("Paused · ")
    assert not bar.pause.isVisible()
    had = bench.downloads.items[NAME].done
    press(bar.get)
    qtbot.waitUntil(lambda: bench.downloads.items[NAME].done > had)
    press(bar.cancel)
    qtbot.waitUntil(lambda: bar.text.text() == "Cancelled; what had come is deleted.")
    assert bar.get.text() == "Download"
    last = hub.ranges("m-Q8_0.gguf")[-1]  # the first had none
    assert last is not None
    assert int(last.removeprefix("bytes=").removesuffix("-")) >= 32768


def test_a_paused_download_stays_in_sight_elsewhere(
    page: DiscoverView, bench: Workbench, hub: FakeHub, qtbot: QtBot
) -> None:
    hub.add("o/other", {"n-Q8_0.gguf": b"x"})
    begin(page, bench, qtbot)
    search(page, "other")
    qtbot.waitUntil(lambda: [row.repo for row in page.state.results] == ["o/other"])
    assert list(page.downloads.lines) == [NAME]  # the offers are away
    line = page.downloads.lines[NAME]
    assert line.isVisible()
    press(line.pause)
    qtbot.waitUntil(lambda: line.get.text() == "Resume")
    assert line.get.accessibleName() == f"Resume {NAME}"
    press(line.cancel)
    qtbot.waitUntil(lambda: not page.downloads.lines)
    assert not page.downloads.isVisible()


def test_a_failed_download_says_why_and_is_tried_again(
    page: DiscoverView, bench: Workbench
) -> None:
    bench.downloads.items["o/x"] = Download("o/x", "failed", problem="the disk is full")
    bench.downloads.changed.emit("o/x")
    line = page.downloads.lines["o/x"]
    assert (line.get.text(), line.text.text()) == ("Try again", "the disk is full")
    bench.downloads.items["o/x"] = Download("o/x", "running", done=MIB, total=4 * MIB)
    bench.downloads.changed.emit("o/x")
    assert (line.progress.value(), line.progress.maximum()) == (250, 1000)


def test_a_full_name_opens_what_no_search_lists(
    page: DiscoverView, hub: FakeHub, qtbot: QtBot
) -> None:
    files = {"m-Q8_0.gguf": b"x" * 9, "m-Q4_0.gguf": b"x"}
    hub.add("o/hidden", files).task = "none"
    page.filters["Task"].setCurrentIndex(1)  # which leaves it out
    search(page, "o/hidden:Q4_0")
    qtbot.waitUntil(lambda: page.state.repo_state == "done" and page.state.state == "done")
    assert page.state.results == []
    assert page.notice.text() == ""
    assert page.repo.title.text() == "o/hidden"
    assert page.repo.download.name == "o/hidden:Q4_0"


def test_nothing_found(page: DiscoverView, qtbot: QtBot) -> None:
    search(page, "nothing like it")
    qtbot.waitUntil(lambda: page.state.state == "done")
    assert page.notice.text() == "Nothing found. Try fewer words, or other filters."
    assert not page.shelf.isVisible()
    page.words.clear()
    assert page.shelf.isVisible()


def test_no_words_list_everything(page: DiscoverView, qtbot: QtBot) -> None:
    search(page, "")
    qtbot.waitUntil(lambda: page.state.state == "done")
    assert [row.repo for row in page.results.rows.shown] == ["o/slow"]


def test_a_limited_rate_says_for_how_long(page: DiscoverView, hub: FakeHub, qtbot: QtBot) -> None:
    hub.limits.append(1)
    search(page, "slow")
    wait = "Hugging Face limits the rate of requests. The search continues in 1 s."
    qtbot.waitUntil(lambda: page.notice.text() == wait)
    qtbot.waitUntil(lambda: bool(page.state.results))
    assert page.notice.text() == ""


def test_one_full_stop_ends_a_problem(page: DiscoverView, caplog: pytest.LogCaptureFixture) -> None:
    for problem in ("no answer", "no answer."):
        page.state.fail("failed", problem)
        assert page.notice.text().startswith("no answer. Models that you have")
    caplog.clear()


def test_narrow(page: DiscoverView, hub: FakeHub, qtbot: QtBot) -> None:
    page.resize(500, 700)
    search(page, "slow")
    qtbot.waitUntil(lambda: page.state.state == "done")
    page.results.choose(0)
    page.results.picked.emit(page.results.rows.shown[0])
    qtbot.waitUntil(lambda: page.state.repo_state == "done")
    results, repo = (part.mapTo(page, part.rect().topLeft()) for part in (page.results, page.repo))
    assert repo.y() > results.y() + page.results.height()
    assert page.area.horizontalScrollBar().maximum() == 0
    page.resize(1280, 700)
    come_to_rest(page)
    assert page.repo.mapTo(page, page.repo.rect().topLeft()).x() > 600


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (HeaderPlan("fits", 8192, 1, 2, "cpu", 12.3, ""), "Fits · 12 tokens/s"),
        (HeaderPlan("fits", 8192, 1, 2, "cpu", None, ""), "Fits"),
        (HeaderPlan("fits_smaller", 512, 1, 2, "cpu", None, ""), "Fits with 512 tokens"),
        (HeaderPlan("too_big", 512, 5 * GB, 2 * GB, "cpu", None, ""), "3.0 GB too large"),
    ],
)
def test_a_verdict_in_a_few_words(plan: HeaderPlan, expected: str) -> None:
    row = find_quant("o/m", None, [RepoFile("m-Q8_0.gguf", 9)])
    assert in_short(row) == "Reading its header …"
    assert in_short(replace(row, plan=plan)) == expected
