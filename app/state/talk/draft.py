"""How many tokens a draft has, counted by the open model's tokenizer in the background."""

from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.client import Latest
from app.state.session import Session
from engine.protocol import CountTokens, Failed, TokenCount

WAIT_MS = 250


class DraftTokens(QObject):
    """`count` is None while it is not known."""

    changed = Signal()

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.count: int | None = None
        self._text = ""
        self._of: Path | None = None  # whose tokenizer was asked last
        self._asked = Latest(session.client)
        self._soon = QTimer(self, singleShot=True, interval=WAIT_MS)
        self._soon.timeout.connect(self._begin)
        session.changed.connect(self._model_changed)

    def set_text(self, text: str) -> None:
        """Count this text, soon; what was asked before no longer matters."""
        self._text = text
        self._asked.forget()
        if not text:
            self._soon.stop()
            self._set(0)
        else:
            self._soon.start()

    def _model_changed(self) -> None:
        if self._of is not None and self._of != self._session.path:
            self._of = None
            self._set(None if self._text else 0)
        if self._session.model is not None and self._of is None and self._text:
            self._soon.start()

    def _begin(self) -> None:
        session = self._session
        if session.model is None or not session.client.abilities.tokenize:
            return
        self._of = session.path
        request = CountTokens(0, str(session.path), self._text)
        self._asked.ask(request, self._counted, self._failed)

    def _counted(self, counted: TokenCount) -> None:
        self._set(counted.count if self._text else 0)

    def _failed(self, failed: Failed) -> None:
        self._set(None)

    def _set(self, count: int | None) -> None:
        if count != self.count:
            self.count = count
            self.changed.emit()
