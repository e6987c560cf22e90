"""The right half: tabs that look inside."""

from collections.abc import Sequence
from typing import TypeVar

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QTabBar, QVBoxLayout, QWidget

from app.state.workbench import Workbench
from app.theme.tokens import GRID
from app.views.log import LogView
from app.views.memory.memory import MemoryView
from app.views.models.model import ModelView
from app.views.selection import SelectionStrip
from app.widgets.basics import divider, surface
from app.window.panes.pages import PAGES, InspectorPage

View = TypeVar("View", bound=QWidget)


class Inspector(QWidget):
    """Named pages behind a line of tabs. In a narrow window "talk" is a tab in front of them.

    A page is made when it is first shown or asked for.
    """

    tab_changed = Signal(str)

    TALK = "talk"

    def __init__(self, bench: Workbench, pages: Sequence[InspectorPage] = PAGES) -> None:
        super().__init__()
        self._bench = bench
        self._pages = {page.id: page for page in pages}
        self._made: dict[str, QWidget] = {}
        surface(self, "panel")
        self.bar = QWidget()
        surface(self.bar, "panel")
        self._tabs = QTabBar()
        self._tabs.setAccessibleName("Inspector's tabs")
        self._tabs.setDrawBase(False)
        self._tabs.setExpanding(False)
        self._tabs.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._stack = QStackedWidget()
        line = QHBoxLayout(self.bar)
        line.setContentsMargins(GRID // 2, 0, GRID, 0)
        line.addWidget(self._tabs)
        line.addStretch(1)
        column = self._column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.bar)
        column.addWidget(divider())
        self.selection = SelectionStrip(bench)
        column.addWidget(self.selection)
        column.addWidget(divider())
        column.addWidget(self._stack, 1)
        for page in pages:
            self._tabs.setTabData(self._tabs.addTab(page.title), page.id)
        self._tabs.currentChanged.connect(self._changed)
        self._changed()

    @property
    def tab(self) -> str:
        """The id of the current tab."""
        return str(self._tabs.tabData(self._tabs.currentIndex()))

    @property
    def memory(self) -> MemoryView:
        return self.view(MemoryView)

    @property
    def model(self) -> ModelView:
        return self.view(ModelView)

    @property
    def log(self) -> LogView:
        log = self.page("log")
        assert isinstance(log, LogView)
        return log

    def view(self, kind: type[View]) -> View:
        """The page whose view is of that class. Raises KeyError where none is."""
        for page in self._pages.values():
            if page.make is kind:
                view = self.page(page.id)
                assert isinstance(view, kind)
                return view
        raise KeyError(kind.__name__)

    def page(self, id: str) -> QWidget:
        """The view behind a tab, by the page's id."""
        if id not in self._made:
            view = self._made[id] = self._pages[id].make(self._bench)
            self._stack.addWidget(view)
            if isinstance(view, MemoryView):
                view.tensors_wanted.connect(self._show_tensors)
            if isinstance(view, ModelView):
                view.tensors.place_wanted.connect(self._show_place)
        return self._made[id]

    def show_tab(self, id: str) -> None:
        for at in range(self._tabs.count()):
            if self._tabs.tabData(at) == id:
                self._tabs.setCurrentIndex(at)
        self._changed()

    def show_talk_tab(self, shown: bool) -> None:
        """Whether talk is one of the tabs."""
        has = self._tabs.tabData(0) == self.TALK
        if shown and not has:
            self._tabs.insertTab(0, "Talk")
            self._tabs.setTabData(0, self.TALK)
        elif has and not shown:
            self._tabs.removeTab(0)

    def take_bar(self) -> None:
        """Take the line of tabs back, if it was put elsewhere."""
        self._column.insertWidget(0, self.bar)

    def _show_tensors(self, layer: int | None) -> None:
        self.model.show_tensors(layer)
        self.show_tab("model")
        self.model.tensors.table.view.setFocus()

    def _show_place(self) -> None:
        self.show_tab("memory")
        self.memory.go_to_layers()

    def _changed(self) -> None:
        if self.tab in self._pages:
            self._stack.setCurrentWidget(self.page(self.tab))
        self.tab_changed.emit(self.tab)
