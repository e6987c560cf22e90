"""The version, and what is new in it."""

from PySide6.QtCore import QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.language import tr
from app.theme.tokens import GRID, PADDING
from app.version import changes, version
from app.widgets.basics import IconButton, divider, label, scrolled
from app.widgets.markdown.view import MarkdownView


class NewsView(QWidget):
    """Shows the changelog that comes with the program (resources/changes.md)."""

    done = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("What is new"))
        self.title = label(f"Cutaway {version()}", size="strong")
        self.text = MarkdownView(tr("Changes by version"))
        self.text.link_clicked.connect(lambda address: QDesktopServices.openUrl(QUrl(address)))
        head = QHBoxLayout()
        head.addWidget(self.title, 1)
        head.addWidget(IconButton("close", tr("Close"), self.done.emit, 16))
        column = QVBoxLayout(self)
        column.setContentsMargins(PADDING, PADDING, PADDING, PADDING)
        column.setSpacing(GRID)
        column.addLayout(head)
        column.addWidget(divider())
        column.addWidget(scrolled(self.text), 1)
        self.setFocusProxy(self.text)

    def refresh(self) -> None:
        self.text.set_text(changes())
