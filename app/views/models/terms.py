"""Terms of use, to be accepted before a download."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.fetch.known import KnownModel, Terms
from app.state.models.downloads import Downloads
from app.theme.tokens import GRID, PADDING
from app.widgets.basics import Button, label


class TermsView(QWidget):
    """Asks once for one model."""

    done = Signal()

    def __init__(self, downloads: Downloads) -> None:
        super().__init__()
        self.setAccessibleName("Terms of use")
        self._downloads, self._name = downloads, ""
        self._title = label(size="strong", wrap=True)
        self._says = label(tone="quiet", wrap=True)
        self._link = QLabel()
        self._link.setOpenExternalLinks(True)
        self._link.setAccessibleName("Web address of the terms")
        self.accept = Button("Accept and download", self._accept, "primary")
        self.setFocusProxy(self.accept)
        row = QHBoxLayout()
        row.setSpacing(GRID)
        row.addStretch(1)
        row.addWidget(Button("Cancel", self.done.emit))
        row.addWidget(self.accept)
        column = QVBoxLayout(self)
        column.setContentsMargins(PADDING, PADDING, PADDING, PADDING)
        column.setSpacing(GRID)
        for widget in (self._title, self._says, self._link):
            column.addWidget(widget)
        column.addSpacing(GRID)
        column.addLayout(row)

    def ask(self, name: str, model: KnownModel | None, terms: Terms) -> None:
        """Show the terms of a model."""
        self._name = name
        self._title.setText(f"{name} is licensed under the {terms.title}")
        size = f"{sum(p.size for p in model.parts) / 1e6:.0f} MB to download. " if model else ""
        self._says.setText(f"{size}By downloading you accept the terms.")
        self._link.setText(f'<a href="{terms.url}">{terms.url}</a>')

    def _accept(self) -> None:
        self._downloads.start(self._name, accept_terms=True)
        self.done.emit()
