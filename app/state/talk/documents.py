"""The documents of the message that is being written."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.documents.document import Document
from app.documents.pdf import page_picture
from app.documents.pieces import Piece, Ranking, of_pieces, pieces_of
from app.documents.reading import read_document
from app.language import tr
from app.state.problem import Problem
from app.state.session import Session
from app.state.talk.attached import Attached
from app.state.talk.disk.store import ChatStore, StoreError
from app.work import Work
from engine.protocol import CountTokens, Failed, TokenCount

MOST_SCANS = 20  # pages of a PDF that are attached as pictures
LETTERS = 3.5  # characters of a token, where they are not counted
MOST_SHOWN = 200  # pieces that a search lists
LEAST_ROOM = 400  # characters


class AttachedDocuments(QObject):
    """Files are read in a thread, one after the other; kept with the chat, also over a restart.
    Scanned pages of a PDF are attached as `pictures` where the open model sees.
    """

    changed = Signal()
    problem = Signal(object)  # Problem of one that could not be read or kept

    def __init__(
        self,
        store: ChatStore,
        session: Session,
        pictures: Attached,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store, self._pictures = store, pictures
        self._chat: int | None = None
        self._coming: deque[tuple[int | None, Path]] = deque()
        self._job: Work | None = None
        self._session = session
        self.documents: tuple[Document, ...] = ()
        self.counts = DocumentTokens(session, self)
        self.counts.changed.connect(self.changed)

    @property
    def arriving(self) -> tuple[str, ...]:
        """The names of files that are being read for this chat."""
        return tuple(path.name for chat, path in self._coming if chat == self._chat)

    @property
    def tokens(self) -> int | None:
        """Tokens of all documents; None while one is not counted."""
        counts = [self.counts.of(document) for document in self.documents]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def show(self, chat: int | None) -> None:
        """Show the documents of this chat's draft; None is the new chat that is not stored yet."""
        self._chat = chat
        try:
            self.documents = self._store.documents.of_draft(chat)
        except StoreError as error:
            self.problem.emit(Problem(error.kind, str(error)))
        self.changed.emit()

    def add_files(self, paths: Sequence[Path]) -> None:
        """Read files and folders that were dropped, pasted or chosen."""
        self._coming.extend((self._chat, path) for path in paths)
        self._next()

    def add_text(self, text: str) -> None:
        """Attach a long text that was pasted."""
        names = {document.name for document in self.documents}
        free = (n for n in range(1, len(names) + 2) if _pasted(n) not in names)
        self._set((*self.documents, Document(_pasted(next(free)), "pasted", text, len(text))))

    def remove(self, place: int) -> None:
        """Take one out."""
        self._set(self.documents[:place] + self.documents[place + 1 :])

    def cut(self, place: int, first: int, last: int) -> None:
        """Keep only these pages or lines of one, from 1."""
        part = self.documents[place].part(first, last)
        self._set((*self.documents[:place], part, *self.documents[place + 1 :]))

    def keep(self, place: int, pieces: Sequence[Piece]) -> None:
        """Keep only these pieces of one."""
        part = of_pieces(self.documents[place], pieces)
        self._set((*self.documents[:place], part, *self.documents[place + 1 :]))

    def room(self, document: Document, n_free: int) -> int:
        """The characters of a document that fill half of so many free tokens."""
        count = self.counts.of(document)
        letters = len(document.text) / count if count else LETTERS
        return max(LEAST_ROOM, int(n_free / 2 * letters))

    def cancel(self) -> None:
        """Stop reading."""
        if self._job is not None:
            self._job.cancel()
            self._job = None
        self._coming.clear()
        self.changed.emit()

    def _set(self, documents: tuple[Document, ...]) -> None:
        try:
            self._store.documents.set_draft(self._chat, documents)
        except StoreError as error:
            self.problem.emit(Problem(error.kind, str(error)))
            return
        self.documents = documents
        self.changed.emit()

    def _next(self) -> None:
        if self._job is None and self._coming:
            chat, path = self._coming[0]
            self._job = Work.polling(self._read, path).then(partial(self._take, chat, path))
            self._job.fail(self._failed).start(self)
        self.changed.emit()

    @staticmethod
    def _read(job: Work, path: Path) -> Document:
        return read_document(path, lambda: job.cancelled)

    def _take(self, chat: int | None, path: Path, document: Document) -> None:
        if chat == self._chat:
            self._set((*self.documents, document))
        else:
            self._add_elsewhere(chat, document)
        model = self._session.model
        if document.scanned and model is not None and model.vision is not None:
            for page in document.scanned[:MOST_SCANS]:
                name = tr("{name} page {page}.png", name=document.name, page=page)
                self._pictures.add_data(name, partial(page_picture, path, page))
        self._end()

    def _add_elsewhere(self, chat: int | None, document: Document) -> None:
        """Another chat was opened meanwhile; the file stays with the chat it was given to."""
        try:
            with self._store.together():
                before = self._store.documents.of_draft(chat)
                self._store.documents.set_draft(chat, (*before, document))
        except StoreError as error:
            self.problem.emit(Problem(error.kind, str(error)))

    def _failed(self, why: str) -> None:
        self.problem.emit(Problem("File", why))
        self._end()

    def _end(self) -> None:
        self._job = None
        self._coming.popleft()
        self._next()


def _pasted(number: int) -> str:
    return tr("Pasted text") if number == 1 else tr("Pasted text {number}", number=number)


class DocumentTokens(QObject):
    """How many tokens documents have, counted by the open model in the background."""

    changed = Signal()

    def __init__(self, session: Session, parent: QObject) -> None:
        super().__init__(parent)
        self._session = session
        self._counts: dict[tuple[str, str], int | None] = {}  # None: requested

    def of(self, document: Document) -> int | None:
        """Its tokens; None while they are unknown. Requests them if needed."""
        session = self._session
        key = str(session.path), document.hash
        can_count = session.model is not None and session.client.abilities.tokenize
        if key not in self._counts and can_count:
            self._counts[key] = None
            request = CountTokens(0, key[0], document.text)
            session.client.ask(request, self._take(key), self._forget(key))
        return self._counts.get(key)

    def _take(self, key: tuple[str, str]) -> Callable[[TokenCount], None]:
        def take(counted: TokenCount) -> None:
            self._counts[key] = counted.count
            self.changed.emit()

        return take

    def _forget(self, key: tuple[str, str]) -> Callable[[Failed], None]:
        def forget(failed: Failed) -> None:
            self._counts.pop(key, None)

        return forget


class PartsSearch(QObject):
    """Pieces of one document that fit a question: `found` are those with a rank, in the order of
    the document; `chosen` the indices of those in `found` that are suggested. Computed in a thread.
    """

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._index: tuple[str, Ranking] | None = None  # of the document with that hash
        self._job: Work | None = None
        self.question = ""
        self.found: list[Piece] = []
        self.chosen: list[int] = []

    @property
    def searching(self) -> bool:
        """True while the pieces are ranked."""
        return self._job is not None

    def clear(self) -> None:
        """Forget what was found."""
        if self._job is not None:
            self._job.cancel()
        self._job = None
        self.question, self.found, self.chosen = "", [], []
        self.changed.emit()

    def start(self, document: Document, question: str, most: int) -> None:
        """Find the pieces for a question; the suggested ones have at most so many characters."""
        self.clear()
        self.question = question
        index = self._index
        known = index[1] if index is not None and index[0] == document.hash else None
        self._job = Work(_ranked, document, known, question, most)
        self._job.then(partial(self._take, document.hash)).fail(lambda _: self.clear()).start(self)
        self.changed.emit()

    def _take(self, key: str, result: tuple[Ranking, list[Piece], list[int]]) -> None:
        ranking, self.found, self.chosen = result
        self._index, self._job = (key, ranking), None
        self.changed.emit()


def _ranked(
    document: Document, known: Ranking | None, question: str, most: int
) -> tuple[Ranking, list[Piece], list[int]]:
    ranking = known or Ranking(pieces_of(document))
    scores = ranking.scores(question)
    ranked = sorted((i for i, score in enumerate(scores) if score > 0), key=lambda i: -scores[i])
    shown = sorted(ranked[:MOST_SHOWN])
    best = set(ranking.best(question, most))
    chosen = [place for place, index in enumerate(shown) if index in best]
    return ranking, [ranking.pieces[index] for index in shown], chosen
