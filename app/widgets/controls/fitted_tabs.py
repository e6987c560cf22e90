"""A line of tabs whose words are shortened where there is no room for all of them."""

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QTabBar

from app.widgets.basics import TEXT_SIZE
from app.widgets.tips import plain_tip

BESIDE = 26  # pixels of a tab beside its word
LEAST = 8  # pixels of a word


class FittedTabs(QTabBar):
    """Takes the width it is given. A shortened tab's tip and accessible name are the whole word."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setDrawBase(False)
        self.setExpanding(False)
        self.setUsesScrollButtons(False)
        self.setElideMode(Qt.TextElideMode.ElideNone)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.currentChanged.connect(self.fit)

    def put(self, title: str, data: object = None, at: int = -1) -> None:
        """Add a tab, at the end unless `at` says where."""
        at = self.insertTab(at, title)
        self.setTabData(at, data)
        self.setTabWhatsThis(at, title)
        self.setAccessibleTabName(at, title)
        self.fit()

    def fit(self, _: int = 0) -> None:
        """Shorten as many words as needed, the longest first; the current one stays whole."""
        titles = [self.tabWhatsThis(at) for at in range(self.count())]
        metrics = self.fontMetrics()
        wanted = [metrics.horizontalAdvance(title) for title in titles]
        room = self.width() - BESIDE * len(titles)
        now = self.currentIndex()
        others = [width for at, width in enumerate(wanted) if at != now]
        level = _level(others, room - sum(wanted) + sum(others))
        for at, title in enumerate(titles):
            text = metrics.elidedText(
                title, Qt.TextElideMode.ElideRight, level if at != now else 1 << 20
            )
            if text != self.tabText(at):
                self.setTabText(at, text)
                self.setTabToolTip(at, "" if text == title else plain_tip(title))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize((BESIDE + LEAST) * self.count(), super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self.fit()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self.fit()


def _level(widths: list[int], room: int) -> int:
    """The width to which the widest are cut so that all fit into `room`."""
    left = room
    for place, width in enumerate(sorted(widths)):
        share = left // (len(widths) - place)
        if width > share:
            return max(share, LEAST)
        left -= width
    return max([*widths, LEAST])
