"""A line of tabs with whole words; those that have no room are in a menu behind it."""

from functools import partial

from PySide6.QtCore import QEvent, QRect, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QMenu, QSizePolicy, QTabBar, QToolButton

from app.language import tr
from app.widgets.basics import TEXT_SIZE


class FittedTabs(QTabBar):
    """Takes the width it is given; the current tab is always among those that are seen."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setDrawBase(False)
        self.setExpanding(False)
        self.setUsesScrollButtons(False)
        self.setElideMode(Qt.TextElideMode.ElideNone)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.more = QToolButton(self)
        self.more.setText(tr("More"))
        self.more.setAccessibleName(tr("More of: {name}", name=name))
        self.more.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._menu = QMenu(self.more)
        self._menu.aboutToShow.connect(self._list_hidden)
        self.more.setMenu(self._menu)
        self.more.hide()
        self.currentChanged.connect(self.fit)

    def put(self, title: str, data: object = None, at: int = -1) -> None:
        """Add a tab, at the end unless `at` says where."""
        at = self.insertTab(at, title)
        self.setTabData(at, data)
        self.setAccessibleTabName(at, title)
        self.fit()

    @property
    def hidden(self) -> list[int]:
        """The tabs that the menu has."""
        return [at for at in range(self.count()) if not self.isTabVisible(at)]

    def fit(self, _: int = 0) -> None:
        """See as many tabs as there is room for: the current one, and the first of the others."""
        widths = [self.tabSizeHint(at).width() for at in range(self.count())]
        everything = sum(widths) <= self.width()
        now, full = self.currentIndex(), False
        left = self.width() - self.more.sizeHint().width()
        left -= widths[now] if now >= 0 else 0
        for at, width in enumerate(widths):
            if at != now:
                full = not everything and (full or width > left)
                left -= width
            seen = at == now or not full
            if seen != self.isTabVisible(at):  # Qt forgets to lay out where the last one stays
                self.setTabVisible(at, seen)
        self._place_more()

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        widest = max((self.tabSizeHint(at).width() for at in range(self.count())), default=0)
        wide = widest + (self.more.sizeHint().width() if self.count() > 1 else 0)
        return QSize(wide, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        self.fit()  # first: Qt would scroll to the current one, and stay there
        super().resizeEvent(event)
        self._place_more()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self.fit()

    def _place_more(self) -> None:
        """Behind the last tab that is seen."""
        hidden = self.hidden
        self.more.setVisible(bool(hidden))
        if hidden:
            tabs = [self.tabRect(at) for at in range(self.count()) if at not in hidden]
            last = max(tabs, key=QRect.right, default=QRect(0, 0, 0, self.height()))
            wide = self.more.sizeHint().width()
            self.more.setGeometry(last.right() + 1, last.top(), wide, last.height())

    def _list_hidden(self) -> None:
        self._menu.clear()
        for at in self.hidden:
            self._menu.addAction(self.tabText(at), partial(self._go, at))

    def _go(self, at: int) -> None:
        """Show a tab that had no room, with the keyboard in the line."""
        self.setCurrentIndex(at)
        self.setFocus()
