"""Every click of the inspector has an answer: all are tried, in views with something in them."""

from pathlib import Path

import pytest
import shiboken6
from PySide6.QtWidgets import QFileDialog

from app.views.tensors.tensors import KINDS, TensorsView
from app.window.main_window import MainWindow
from engine.protocol import Compare, CompareTexts
from tests.app.helpers.compared import compared, texts_compared
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.window.inside.clicking import Target, click, targets
from tests.app.window.test_pairs import LAYERS, PAGES, go, know

MOST = 400  # clicks of one view
DONE_ALREADY = ("Show everything (0)",)  # what is shown as a whole stays as it is


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The dialogs for files that would have opened."""
    opened: list[str] = []

    def ask(*words: object) -> tuple[str, str]:
        opened.append(str(words[1]))
        return "", ""

    monkeypatch.setattr(QFileDialog, "getSaveFileName", ask)
    monkeypatch.setattr(QFileDialog, "getOpenFileName", ask)
    return opened


@pytest.fixture
def known(window: MainWindow, client: ScriptedEngine, tiny_path: Path) -> MainWindow:
    """Every view has something to show."""
    window.resize(1100, 800)
    know(window, client)
    go(window, "tensors")
    window.bench.comparison.start()
    client.say(compared(LAYERS, ["l_out-3"], client.last_of(Compare).id))
    view = window.inspector.view(TensorsView)
    view.kinds.setCurrentIndex(KINDS.index("Texts"))
    view.texts.compare.click()
    client.say(texts_compared(client.last_of(CompareTexts).id, LAYERS))
    view.kinds.setCurrentIndex(0)
    window.bench.selection.select_tensor("blk.1.attn_norm.weight", 1)
    return window


def dead(window: MainWindow, page: str, asked: list[str], places: int) -> tuple[list[str], int]:
    """Clicks of a page that change nothing, and how many there were."""
    tried: set[tuple[str, ...]] = set()
    silent: list[str] = []

    def answered(target: Target) -> bool:
        if window.inspector.tab != page:
            go(window, page)
        window.bench.selection.select_tensor("blk.1.attn_norm.weight", 1)
        return click(window, target, asked)

    while len(tried) < MOST:
        left = [target for target in targets(window, places) if target.key not in tried]
        for target in [target for target in left if not target.mode] or left[:1]:
            if shiboken6.isValid(target.widget) and target.widget.isVisible():
                tried.add(target.key)
                if not answered(target) and target.key[2] not in DONE_ALREADY:
                    again = [new for new in targets(window, places) if new.key == target.key]
                    silent += [" / ".join(new.key) for new in again if not answered(new)]
        if not left:
            break
    return silent, len(tried)


@pytest.mark.parametrize(
    ("places", "pages"),
    [(1, PAGES[::3]), pytest.param(9, PAGES, marks=pytest.mark.full)],
    ids=["some", "all"],
)
def test_every_click_is_answered(
    known: MainWindow, asked: list[str], places: int, pages: tuple[str, ...]
) -> None:
    """So many places of each chart and columns of each table."""
    for page in pages:
        silent, count = dead(known, page, asked, places)
        assert not silent, "\n".join(silent)
        assert 10 < count < MOST, page


def test_a_click_that_nobody_hears_is_found(known: MainWindow, asked: list[str]) -> None:
    """A button and the rows of a table, each with its listener and without."""
    go(known, "memory")
    memory = known.inspector.memory
    memory.show_page("splits")
    copying, rows = memory.copy_button, memory.splits.view.viewport()
    for widget in (copying, rows):
        for heard in (True, False):
            memory.show_page("splits" if widget is rows else "layers")
            memory.splits.view.clearSelection()
            known.bench.selection.select_tensor("blk.1.attn_norm.weight", 1)
            place = widget.rect().center()
            if widget is rows:
                place = memory.splits.view.visualRect(memory.splits.rows.index(1, 1)).center()
            if not heard and widget is rows:
                memory.splits.view.setModel(None)
            elif not heard:
                copying.clicked.disconnect()
            assert click(known, Target((), widget, place), asked) is heard, (widget, heard)
