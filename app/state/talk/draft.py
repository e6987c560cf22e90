"""How many tokens a draft has, counted by the open model's tokenizer in the background."""

from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.state.session import Session
from app.work import Work
from engine.gguf.reader import open_gguf
from engine.tokenizer import Tokenizer, load_tokenizer

WAIT_MS = 250


class DraftTokens(QObject):
    """`count` is None while it is not known."""

    changed = Signal()

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.count: int | None = None
        self._text = ""
        self._loaded: tuple[Path, Tokenizer] | None = None
        self._work: Work | None = None
        self._soon = QTimer(self, singleShot=True, interval=WAIT_MS)
        self._soon.timeout.connect(self._begin)
        session.changed.connect(self._model_changed)

    def set_text(self, text: str) -> None:
        """Count this text, soon; what was asked before no longer matters."""
        self._text = text
        if not text:
            self._soon.stop()
            self._set(0)
        else:
            self._soon.start()

    def _model_changed(self) -> None:
        if self._loaded is not None and self._loaded[0] != self._session.path:
            self._loaded = None
            self._set(None if self._text else 0)
        if self._session.model is not None and self._loaded is None and self._text:
            self._soon.start()

    def _begin(self) -> None:
        path = self._session.path
        if path is None or self._session.model is None:
            return
        if self._work is not None:
            self._work.cancel()
        known = self._loaded[1] if self._loaded is not None else None
        work = Work(_count, known, path, self._text).then(self._counted).fail(self._failed)
        self._work = work.start(self)

    def _counted(self, made: tuple[Path, Tokenizer, int]) -> None:
        path, tokenizer, count = made
        self._loaded = path, tokenizer
        self._set(count if self._text else 0)

    def _failed(self, problem: str) -> None:
        self._set(None)

    def _set(self, count: int | None) -> None:
        if count != self.count:
            self.count = count
            self.changed.emit()


def _count(tokenizer: Tokenizer | None, path: Path, text: str) -> tuple[Path, Tokenizer, int]:
    if tokenizer is None:
        with open_gguf(path) as file:
            tokenizer = load_tokenizer(file.metadata)
    return path, tokenizer, len(tokenizer.encode(text, add_special=False))
