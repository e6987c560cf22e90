"""The version, and what is new in it."""

from PySide6.QtCore import QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QWidget

from app.language import tr
from app.theme.tokens import PADDING
from app.version import changes, version
from app.widgets.basics import IconButton, divider, label, scrolled
from app.widgets.layouts import hbox, vbox
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
        head = hbox((self.title, 1), IconButton("close", tr("Close"), self.done.emit, 16))
        vbox(head, divider(), (scrolled(self.text), 1), on=self, margins=PADDING)
        self.setFocusProxy(self.text)

    def refresh(self) -> None:
        self.text.set_text(changes())
