"""The right half: tabs that look inside."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QShowEvent
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.language import tr
from app.state.workbench import Workbench
from app.theme.theme import undressed
from app.theme.tokens import GRID, PADDING
from app.views.layers.layers import LayersView
from app.views.memory.memory import MemoryView
from app.views.selection import SelectionStrip
from app.views.token.token import TokenView
from app.widgets.basics import Button, IconButton, divider, label, surface
from app.widgets.commands import Actions
from app.widgets.controls.fitted_tabs import FittedTabs
from app.widgets.layouts import hbox, vbox
from app.widgets.lists.rows import ViewReport
from app.window.panes.pages import PAGES, InspectorPage
from app.window.panes.view_window import ViewWindow

# The ability without which a page has nothing to show, and what is missing then.
NEEDS = {
    "token": ("examine", tr("Servers do not report how a token was computed.")),
    "memory": ("memory", tr("Servers do not report what their memory holds.")),
    "layers": (
        "splits",
        tr("The server decides which device runs a layer, and does not report it."),
    ),
    "graph": ("splits", tr("Servers do not report the compute graph or its splits.")),
    "tensors": ("file", tr("Servers do not give access to tensors.")),
    "profile": ("splits", tr("Servers do not report the time of each operation.")),
}
SEEN = tr(
    "Available are the answers, their times and, if the server reports them, the"
    " probabilities of their words (Ctrl+P)."
)


class SeenPage(QStackedWidget):
    """The view of a page, or why there is nothing to be seen in it while a server answers.

    Its parent is known from the start: each change of it dresses all that lies in a page again.
    """

    def __init__(self, bench: Workbench, id: str, view: QWidget, parent: QWidget) -> None:
        super().__init__(parent)
        self._bench, self.view = bench, view
        self._need, self._why = NEEDS.get(id, ("", ""))
        self.caption = label(tone="quiet", wrap=True)
        self.caption.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.caption.setAccessibleName(tr("Not available"))
        missing = QWidget()
        column = vbox(on=missing, margins=PADDING)
        column.setAlignment(Qt.AlignmentFlag.AlignTop)
        column.addWidget(self.caption)
        self._missing = missing
        self.addWidget(view)
        self.addWidget(missing)
        self.setFocusProxy(view)
        bench.session.changed.connect(self.refresh)
        bench.layers.changed.connect(self.refresh)
        self.refresh()

    @property
    def is_missing(self) -> bool:
        """True if the open model is remote and the view needs a local one. The layers of a file on
        this disk may be placed meanwhile.
        """
        bench = self._bench
        if bench.session.connection is None or not self._need:
            return False
        places = isinstance(self.view, LayersView) and bench.layers.file is not None
        return not getattr(bench.client.abilities, self._need) and not places

    def refresh(self) -> None:
        """Show what there is now."""
        gone = self.is_missing
        if gone:
            session = self._bench.session
            where = session.connection.name if session.connection is not None else ""
            self.caption.setText(
                tr(
                    "{model_title} runs on the server {where}. {why}\n\n{note}",
                    model_title=session.model_title.removesuffix(f" on {where}"),
                    where=where,
                    why=self._why,
                    note=SEEN,
                )
            )
        shown = self._missing if gone else self.view
        if self.currentWidget() is not shown:
            self.setCurrentWidget(shown)
            self.setFocusProxy(self.caption if gone else self.view)


View = TypeVar("View", bound=QWidget)


class Inspector(QWidget):
    """Named pages behind a line of tabs. In a narrow window "talk" is a tab in front of them.

    A page is made when it is first needed. It can lie in a window of its own.
    """

    tab_changed = Signal(str)
    tensors_wanted = Signal(object)  # of a layer; None: all of the file
    document_wanted = Signal(object, int)  # a document and a place in its text
    close_wanted = Signal()

    TALK = "talk"

    def __init__(
        self, bench: Workbench, commands: Actions[Any], pages: Sequence[InspectorPage] = PAGES
    ) -> None:
        super().__init__()
        self._bench = bench
        self._pages = {page.id: page for page in pages}
        self._made: dict[str, SeenPage] = {}
        self.windows: dict[str, ViewWindow] = {}  # of the pages that have one, by id
        surface(self, "panel")
        self.bar = QWidget()
        surface(self.bar, "panel")
        self._tabs = FittedTabs(tr("Inspector's tabs"))
        self.stack = QStackedWidget()
        self._away = _Away(self.show_again)
        self.stack.addWidget(self._away)
        line = hbox((self._tabs, 1), on=self.bar, margins=(GRID // 2, 0, GRID, 0), spacing=2)
        for picture, name, command in (
            ("camera", tr("Copy this view as a picture (Ctrl+Alt+C)"), "view.copy_picture"),
            ("download", tr("Save a report of this view (Ctrl+Alt+S)"), "view.save_report"),
            ("window", tr("Open this view in its own window (Ctrl+Shift+N)"), "view.own_window"),
        ):
            line.addWidget(_command_button(picture, name, commands, command))
        self.close_button = IconButton(
            "close", tr("Close the inspector (Esc)"), self.close_wanted.emit
        )
        line.addWidget(self.close_button)
        self.selection = SelectionStrip(bench)
        self._column = vbox(
            self.bar, divider(), self.selection, divider(), (self.stack, 1), on=self, spacing=0
        )
        for page in pages:
            self._tabs.put(page.title, page.id)
        self._tabs.currentChanged.connect(self._changed)
        self._changed()

    @property
    def tab(self) -> str:
        """The id of the current tab."""
        return str(self._tabs.tabData(self._tabs.currentIndex()))

    @property
    def memory(self) -> MemoryView:
        return self.view(MemoryView)

    def view(self, kind: type[View]) -> View:
        """The page whose view is of that class. Raises KeyError where none is."""
        for page in self._pages.values():
            if page.make is kind:
                view = self.page(page.id)
                assert isinstance(view, kind)
                return view
        raise KeyError(kind.__name__)

    def has_made(self, id: str) -> bool:
        """Return whether a page was shown or used before."""
        return id in self._made

    def page(self, id: str) -> QWidget:
        """The view behind a tab, by the page's id."""
        return self._holder(id).view

    def _holder(self, id: str) -> SeenPage:
        if id not in self._made:
            with undressed():
                view = self._pages[id].make(self._bench)
                self._made[id] = SeenPage(self._bench, id, view, self.stack)
            self.stack.addWidget(self._made[id])
            if isinstance(view, MemoryView):
                view.tensors_wanted.connect(self.tensors_wanted)
            elif isinstance(view, TokenView):
                view.attention.document_wanted.connect(self.document_wanted)
        return self._made[id]

    def title(self, id: str) -> str:
        """Return the title of a page's tab."""
        return self._pages[id].title

    def report(self, id: str) -> ViewReport:
        """Return the contents of a page for a report."""
        return self._pages[id].report(self._bench, self.page(id))

    @property
    def front(self) -> str:
        """The page that a person looks at: that of the active window, or of the tab; empty where
        the tab is the talk's, or the inspector is closed.
        """
        active = (id for id, window in self.windows.items() if window.isActiveWindow())
        shown = self.tab in self._pages and not self.isHidden()
        return next(active, self.tab if shown else "")

    def put_in_window(self, id: str, of: QWidget) -> None:
        """Give a page a window of its own; bring it to the front where it has one."""
        if id not in self.windows:
            view = self._holder(id)
            self.stack.removeWidget(view)
            window = ViewWindow(self._bench, id, self.title(id), view, of)
            window.closed.connect(self._take_back)
            self.windows[id] = window
            self._changed()
        self.windows[id].come_forward()

    def show_again(self, id: str) -> None:
        """Close a page's window: the page is behind its tab again."""
        if id in self.windows:
            self.windows[id].close()

    def close_windows(self) -> None:
        for id in list(self.windows):
            self.show_again(id)

    def _take_back(self, id: str) -> None:
        window = self.windows.pop(id)
        self.stack.addWidget(window.view)
        window.deleteLater()
        self.window().activateWindow()
        self._changed()

    def show_tab(self, id: str) -> None:
        if id in self.windows:
            self.windows[id].come_forward()
            return
        for at in range(self._tabs.count()):
            if self._tabs.tabData(at) == id:
                self._tabs.setCurrentIndex(at)
        self._changed()

    def show_talk_tab(self, shown: bool) -> None:
        """Set whether the chat is one of the tabs."""
        self.close_button.setVisible(not shown)  # there the talk's tab does it
        has = self._tabs.tabData(0) == self.TALK
        if shown and not has:
            self._tabs.put(tr("Talk"), self.TALK, 0)
        elif has and not shown:
            self._tabs.removeTab(0)
            self._tabs.fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if event.key() == Qt.Key.Key_Escape:
            self.close_wanted.emit()
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        """Open the verbs of the selection, by the right button or the menu key."""
        if self.selection.has_verbs:
            self.selection.verbs_wanted.emit(event.globalPos())

    def take_bar(self) -> None:
        """Take the line of tabs back, if it was put elsewhere."""
        self._column.insertWidget(0, self.bar)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        super().showEvent(event)
        self.fill()

    def fill(self) -> None:
        """Show the page of the tab, unless all is hidden: nobody waits for what nobody sees."""
        tab = self.tab
        if tab in self.windows:
            self._away.show_page(tab, self.title(tab))
            self.stack.setCurrentWidget(self._away)
        elif tab in self._pages and not self.isHidden():
            self.stack.setCurrentWidget(self._holder(tab))

    def _changed(self) -> None:
        self.fill()
        self.tab_changed.emit(self.tab)


class _Away(QWidget):
    """Stands where a page would, whose view is in its own window."""

    def __init__(self, bring_back: Callable[[str], object]) -> None:
        super().__init__()
        self._id = ""
        self._caption = label(tone="quiet", wrap=True)
        column = vbox(on=self, margins=PADDING)
        column.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        column.addWidget(self._caption)
        column.addWidget(Button(tr("Move back here"), lambda: bring_back(self._id)))

    def show_page(self, id: str, title: str) -> None:
        self._id = id
        self._caption.setText(tr("{title} is in its own window.", title=title))


def _command_button(picture: str, name: str, commands: Actions[Any], command: str) -> IconButton:
    return IconButton(picture, name, lambda: commands.run(command))
