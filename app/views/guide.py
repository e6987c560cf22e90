"""The guides that come with the program: their sections, a search in them, one to read."""

from PySide6.QtCore import QEvent, QSize, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QLineEdit, QListWidget, QListWidgetItem, QScrollArea, QWidget

from app.guides import Section, sections
from app.language import tr
from app.theme import fonts
from app.theme.tokens import GRID, PADDING
from app.widgets.basics import TEXT_SIZE, IconButton, divider, label, scrolled
from app.widgets.layouts import hbox, vbox
from app.widgets.markdown.view import MarkdownView

LIST_WIDTH = 208
INDENT = "    "  # of a section below its guide


class GuideView(QWidget):
    """The list of sections on the left, the chosen one on the right; words typed above leave the
    sections that have all of them, and are marked there.
    """

    done = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Guide"))
        self.query = QLineEdit()
        self.query.setPlaceholderText(tr("Search the guide"))
        self.query.setAccessibleName(tr("Search the guide"))
        self.query.setClearButtonEnabled(True)
        self.list = QListWidget()
        self.list.setAccessibleName(tr("Sections"))
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.title = label(size="strong", wrap=True)
        self.text = MarkdownView(tr("Section"))
        self.text.link_clicked.connect(lambda address: QDesktopServices.openUrl(QUrl(address)))
        self._area: QScrollArea = scrolled(self.text)
        self._sections: list[Section] = []
        self._shown: list[Section] = []
        close = IconButton("close", tr("Close"), self.done.emit, 16)
        read = vbox(self.title, (self._area, 1), spacing=GRID)
        body = hbox(self.list, (read, 1), spacing=2 * GRID)
        vbox(hbox((self.query, 1), close), divider(), (body, 1), on=self, margins=PADDING)
        self.setFocusProxy(self.query)
        self._fit()
        self.query.textChanged.connect(self._filter)
        self.list.currentRowChanged.connect(self._show)

    def show_topic(self, topic: str) -> None:
        """Show the section of that English title, or the first one where there is none."""
        if not self._sections:
            self._sections = sections()
        self.query.clear()
        self._filter()
        row = next((i for i, one in enumerate(self._shown) if one.topic == topic), 0)
        self.list.setCurrentRow(row)

    @property
    def _words(self) -> list[str]:
        return self.query.text().casefold().split()

    def _filter(self) -> None:
        """List the sections that have all words."""
        self._shown = [
            one
            for one in self._sections
            if all(word in f"{one.title} {one.text}".casefold() for word in self._words)
        ]
        self.list.clear()
        for one in self._shown:
            item = QListWidgetItem(one.title if one.begins else INDENT + one.title)
            item.setData(Qt.ItemDataRole.AccessibleTextRole, one.heading)
            self.list.addItem(item)
        self._fit()
        self.list.setCurrentRow(0)
        if not self._shown:
            self.title.setText(tr("Nothing found"))
            self.text.set_text("")

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self._fit()

    def _fit(self) -> None:
        """Fit the list to the size of texts."""
        self.list.setFixedWidth(fonts.px(LIST_WIDTH))
        for row, one in enumerate(self._shown):
            item = self.list.item(row)
            item.setSizeHint(QSize(0, fonts.row()))
            item.setFont(fonts.strong() if one.begins else fonts.body())

    def _show(self, row: int) -> None:
        if not 0 <= row < len(self._shown):
            return
        one = self._shown[row]
        self.title.setText(one.heading)
        self.text.set_text(one.text)
        self.text.mark(self._words)
        self._area.verticalScrollBar().setValue(0)
