"""Sheets are made at their first use, from the state of that moment."""

import pytest
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QWidget

from app.state.models.downloads import Download
from app.theme.theme import Theme
from app.views.models.chooser import DISCOVER, Chooser
from app.views.models.server_form import ServerForm
from app.views.news import NewsView
from app.window.main_window import MainWindow
from app.window.panes.pages import PAGES
from app.window.sheets import Sheets
from tests.app.rest import come_to_rest
from tests.app.window.scenes.trial_scenes import patched

SHEETS = (
    *("chooser", "terms", "file", "preferences", "guide", "news", "serving", "report", "prompt"),
    *("palette", "viewer", "document", "steer", "runs", "take", "trial", "pair"),
)


def says(view: QWidget) -> list[str]:
    """The texts of labels and buttons that the view would show."""
    return [
        widget.text()
        for widget in view.findChildren(QWidget)
        if isinstance(widget, QLabel | QAbstractButton)
        and widget.isVisibleTo(view)
        and widget.text()
    ]


class Windows(QObject):
    """Notes each widget that is shown as a window of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[str] = []

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if event.type() == QEvent.Type.Show and isinstance(watched, QWidget) and watched.isWindow():
            self.shown.append(type(watched).__name__)
        return False


def test_no_part_of_a_view_is_a_window_while_it_is_made(
    window: MainWindow, qapp: QApplication
) -> None:
    """One that is shown before it has a parent would flash, and take the keyboard."""
    windows = Windows()
    qapp.installEventFilter(windows)
    for name in SHEETS:
        getattr(window.sheets, name)
    for page in PAGES:
        window.inspector.page(page.id)
    qapp.removeEventFilter(windows)
    assert not windows.shown, windows.shown


class Paints(QObject):
    """Notes what is painted."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[object] = set()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if event.type() == QEvent.Type.Paint:
            self.seen.add(watched)
        return False


def test_a_sheet_is_painted_a_turn_after_it_was_made(
    window: MainWindow, qapp: QApplication
) -> None:
    """Each takes tens of milliseconds; what is typed in between is the sheet's."""
    qapp.processEvents()
    window.sheets.show_palette()
    palette, paints = window.sheets.palette, Paints()
    qapp.installEventFilter(paints)
    QApplication.sendPostedEvents()
    assert palette.isVisible()
    assert not paints.seen & {palette, palette.query}
    QTest.keyClicks(window.focusWidget(), "news")
    for _ in range(3):
        qapp.processEvents()
    qapp.removeEventFilter(paints)
    assert palette.query.text() == "news"
    assert {palette, palette.query} <= paints.seen


@pytest.mark.parametrize("page", ["graph", "memory"])
def test_f1_opens_the_guide_at_the_view_that_is_open(window: MainWindow, page: str) -> None:
    window.panes.show_tab(page)
    QTest.keyClick(window, Qt.Key.Key_F1)
    assert window.sheets.front is window.sheets.of[window.sheets.guide]
    assert window.sheets.guide.title.text() == f"The window: {page.capitalize()}"


def test_a_sheet_is_made_at_its_first_use_and_once(window: MainWindow) -> None:
    sheets = window.sheets
    assert not sheets.of
    made = [page.id for page in PAGES if window.inspector.has_made(page.id)]
    assert made == ["token"], "the page that is shown"
    sheets.show_news()
    assert [type(view) for view in sheets.of] == [NewsView]
    sheets.dismiss(Chooser)  # which nobody has opened
    sheets.show_chooser()
    assert sheets.front is sheets.of[sheets.chooser]
    sheets.show_news()
    assert sheets.front is sheets.of[sheets.chooser], "it was open below"
    sheets.dismiss(Chooser)
    assert sheets.front is sheets.of[sheets.news]
    sheets.dismiss(NewsView)
    assert sheets.front is None
    assert len(sheets.of) == 2


def test_a_sheet_that_is_made_late_shows_what_an_early_one_does(window: MainWindow) -> None:
    """Both after a model, a run, an answer, downloads and failures."""
    bench, early = window.bench, window.sheets
    before = {name: getattr(early, name) for name in SHEETS}
    pages = {page.id: window.inspector.page(page.id) for page in PAGES}
    patched(window)
    bench.downloads.items["smollm2"] = Download("smollm2", "failed", problem="no room")
    bench.downloads.changed.emit("smollm2")
    for state in (bench.report, bench.serving, bench.steering, bench.runs, bench.pair, bench.trial):
        assert isinstance(state.problem, str)
        state.problem = f"{type(state).__name__} failed"
    for changed in (bench.report.changed, bench.serving.changed, bench.steering.changed):
        changed.emit()
    for changed in (bench.runs.changed, bench.pair.updated, bench.trial.updated):
        changed.emit()
    bench.preferences.update(theme="dark", send_key="ctrl+enter")
    bench.library.changed.emit()
    late = Sheets(bench, window.commands, window.loader, window.centralWidget())
    for name, view in before.items():
        made = getattr(late, name)
        for one in (made, view):
            if hasattr(one, "refresh"):
                one.refresh()  # as it is opened
        assert says(made) == says(view), name
    for page in PAGES[1:]:  # the Token view asks for what it shows once it is seen
        made = page.make(bench)
        more = set(says(made)) - set(says(pages[page.id]))  # details of the selected layer
        assert more <= {made.details.text() if page.id == "memory" else ""}, page.id
        assert set(says(pages[page.id])) <= set(says(made)), page.id
        made.deleteLater()
    for sheets in (early, late):
        sheets.chooser.tabs.setCurrentIndex(DISCOVER)
    assert "no room" in says(late.chooser)
    assert says(late.chooser) == says(early.chooser)
    assert "Paris against Rome" in "".join(says(late.runs))
    late.deleteLater()


@pytest.mark.styled
def test_fields_of_a_fixed_height_grow_with_the_text_of_an_open_sheet(
    window: MainWindow, theme: Theme
) -> None:
    window.sheets.show_runs()
    window.sheets.add_server()
    words = window.sheets.runs.features.words
    fields = [words, *(form.headers for form in window.findChildren(ServerForm))]
    assert len(fields) == 2
    before = [field.height() for field in fields]
    window.bench.preferences.update(font_scale=2.0)
    theme.finish()  # it changes hidden widgets in slices
    come_to_rest(window, window.bench)
    assert [field.height() for field in fields] == [2 * height for height in before]
