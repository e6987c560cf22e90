"""The right half: tabs that look inside."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QTabBar, QVBoxLayout, QWidget

from app.state.workbench import Workbench
from app.theme.tokens import GRID
from app.views.log import LogView
from app.views.memory.memory import MemoryView
from app.views.models.model import ModelView
from app.views.selection import SelectionStrip
from app.widgets.basics import divider, surface


class Inspector(QWidget):
    """Named pages behind a line of tabs. In a narrow window "talk" is a tab in front of them."""

    tab_changed = Signal(str)

    TALK = "talk"

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        surface(self, "panel")
        self.bar = QWidget()
        surface(self.bar, "panel")
        self._tabs = QTabBar()
        self._tabs.setAccessibleName("Inspector's tabs")
        self._tabs.setDrawBase(False)
        self._tabs.setExpanding(False)
        self._tabs.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._stack = QStackedWidget()
        self._pages: dict[str, QWidget] = {}
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
        self._tabs.currentChanged.connect(self._changed)
        self.memory, self.model = MemoryView(bench), ModelView(bench)
        self.log = LogView(bench.log)
        self.add("memory", "Memory", self.memory)
        self.add("model", "Model", self.model)
        self.add("log", "Log", self.log)
        self.memory.tensors_wanted.connect(self._show_tensors)
        self.model.tensors.place_wanted.connect(self._show_place)

    @property
    def tab(self) -> str:
        """The id of the current tab."""
        return str(self._tabs.tabData(self._tabs.currentIndex()))

    def add(self, id: str, title: str, page: QWidget) -> None:
        self._pages[id] = page
        self._stack.addWidget(page)
        self._tabs.setTabData(self._tabs.addTab(title), id)

    def show_tab(self, id: str) -> None:
        for at in range(self._tabs.count()):
            if self._tabs.tabData(at) == id:
                self._tabs.setCurrentIndex(at)

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
        page = self._pages.get(self.tab)
        if page is not None:
            self._stack.setCurrentWidget(page)
        self.tab_changed.emit(self.tab)
