"""The documents of the message that is being written."""

import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Signal

from app.documents.document import Document
from app.documents.pdf import page_picture
from app.documents.pieces import Piece, Ranking, of_pieces, pieces_of
from app.documents.reading import read_document
from app.language import tr, tr_n
from app.state.problem import Problem
from app.state.session import Session
from app.state.talk.attached import Attached
from app.state.talk.disk.store import ChatStore, StoreError
from app.state.talk.embedder import Embedder
from app.work import Work
from engine.protocol import CountTokens, Failed, TokenCount

MOST_SCANS = 20  # pages of a PDF that are attached as pictures
LETTERS = 3.5  # characters of a token, where they are not counted
MOST_SHOWN = 200  # pieces that a search lists
LEAST_ROOM = 400  # characters
LEAST = 1e-6  # of a joined score
HIGH = 5  # a rank up to which a piece counts as found


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
        self.job: Work | None = None
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
        if self.job is not None:
            self.job.cancel()
            self.job = None
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
        if self.job is None and self._coming:
            chat, path = self._coming[0]
            self.job = Work.polling(self._read, path).then(partial(self._take, chat, path))
            self.job.fail(self._failed).start(self)
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
        if document.scanned and (model is None or model.vision is None):
            text = tr_n(
                "{name}: {n} page has no text. A vision model can read it as a picture.",
                "{name}: {n} pages have no text. A vision model can read them as pictures.",
                len(document.scanned),
                name=document.name,
            )
            self.problem.emit(Problem("ScannedPages", text))
        elif document.scanned:
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
        self.job = None
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
            session.client.send(request, self._take(key), self._forget(key))
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
    the document; `chosen` the indices of those in `found` that are suggested; `by` says of each of
    `found` what found it: words, meaning or both. Words are ranked in a thread. Where an embedding
    model is on this disk, its ranks are joined to these: `embedder` names it, `note` says why it
    was not used.
    """

    changed = Signal()

    def __init__(self, embedder: Embedder, parent: QObject) -> None:
        super().__init__(parent)
        self._index: tuple[str, Ranking] | None = None  # of the document with that hash
        self.job: Work | None = None
        self._embedder = embedder
        self._by_words: list[float] = []
        self._most = 0
        self.embedding = False
        self._forget()

    def _forget(self) -> None:
        self.question = self.embedder = self.note = ""
        self.found: list[Piece] = []
        self.chosen: list[int] = []
        self.by: list[str] = []

    @property
    def searching(self) -> bool:
        """True while the pieces are ranked."""
        return self.job is not None or self.embedding

    @property
    def embedded(self) -> tuple[int, int]:
        """How many pieces the embedding model has read, of how many."""
        return self._embedder.done, self._embedder.total

    def clear(self) -> None:
        """Forget what was found."""
        self.stop()
        self._forget()
        self.changed.emit()

    def stop(self) -> None:
        """Stop searching; what the words have found stays."""
        if self.job is not None:
            self.job.cancel()
        if self.embedding:
            self._embedder.cancel()
            self.note = tr("Stopped: parts are found by their words.")
        self.job, self.embedding = None, False
        self.changed.emit()

    def release(self) -> None:
        """Close the embedding model."""
        self.stop()
        self._embedder.release()

    def start(self, document: Document, question: str, most: int) -> None:
        """Find the pieces for a question; the suggested ones have at most so many characters."""
        self.clear()
        self.question, self._most = question, most
        index = self._index
        known = index[1] if index is not None and index[0] == document.hash else None
        self.job = Work(_ranked, document, known, question)
        self.job.then(partial(self._take, document.hash)).fail(lambda _: self.clear()).start(self)
        self.changed.emit()

    def _take(self, key: str, result: tuple[Ranking, list[float]]) -> None:
        ranking, self._by_words = result
        self._index, self.job = (key, ranking), None
        self._show(ranking, self._by_words)
        self.by = ["words"] * len(self.found)
        model = self._embedder.model
        if model is not None and ranking.pieces:
            self.embedding, self.embedder = True, model.name
            texts = [piece.text for piece in ranking.pieces]
            self._embedder.compare(self.question, texts, key, self._join, self._not_embedded)
        self.changed.emit()

    def _join(self, cosines: NDArray[np.float32]) -> None:
        """Join both by the sum of their scores, each from 0 to 1 (Bruch, Gai and Ingber 2023)."""
        self.embedding = False
        if self._index is None:
            return
        words = ranks([p if p > 0 else -math.inf for p in self._by_words])
        meaning = ranks(cosines.tolist())
        shown = self._show(self._index[1], joined_scores(self._by_words, cosines.tolist()))
        self.by = [_found_by(words[index], meaning[index]) for index in shown]
        self.changed.emit()

    def _not_embedded(self, why: str) -> None:
        self.embedding = False
        self.embedder, self.note = "", tr("Only by words: {why}", why=why)
        self.changed.emit()

    def _show(self, ranking: Ranking, scores: Sequence[float]) -> list[int]:
        """Take what these scores find; its indices among the pieces."""
        ranked = sorted((i for i, p in enumerate(scores) if p > 0), key=lambda i: -scores[i])
        shown = sorted(ranked[:MOST_SHOWN])
        best = set(ranking.within(scores, self._most))
        self.found = [ranking.pieces[index] for index in shown]
        self.chosen = [place for place, index in enumerate(shown) if index in best]
        return shown


def joined_scores(words: Sequence[float], meaning: Sequence[float]) -> list[float]:
    """The sum of two scores of each piece, both brought to 0 (lowest) to 1 (highest), and above 0,
    as each piece means something. Ranks would lose how much better the best is: with them a weak
    embedding model hides what words have found.
    """
    return [a + b + LEAST for a, b in zip(_from_0_to_1(words), _from_0_to_1(meaning), strict=True)]


def _from_0_to_1(scores: Sequence[float]) -> list[float]:
    low = min(scores, default=0.0)
    span = max(scores, default=0.0) - low or 1.0
    return [(score - low) / span for score in scores]


def ranks(scores: Sequence[float]) -> list[int | None]:
    """The rank of each score, 1 for the highest; None for one of minus infinity."""
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    found: list[int | None] = [None] * len(scores)
    for rank, index in enumerate(order, 1):
        found[index] = rank if scores[index] > -math.inf else None
    return found


def _found_by(words: int | None, meaning: int | None) -> str:
    both = words is not None and meaning is not None and max(words, meaning) <= HIGH
    if both or words == meaning:
        return "both"
    return "meaning" if words is None or (meaning is not None and meaning < words) else "words"


def _ranked(
    document: Document, known: Ranking | None, question: str
) -> tuple[Ranking, list[float]]:
    ranking = known or Ranking(pieces_of(document))
    return ranking, ranking.scores(question)
