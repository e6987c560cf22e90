"""The context that a word came after: which of its items stand where in the chat."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.documents.document import Document
from app.state.talk.message import Message
from app.state.talk.reasoning import split_reasoning
from app.state.talk.tokens import Tokens
from engine.protocol import ContextItems, PlacedRows

NO_TOKEN = -1  # the id of a picture's row
MOST_CANDIDATES = 64  # places at which a message's text is looked for

Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]


class Part(NamedTuple):
    """Characters of a message's text, or of its `document` of that index, from `first` to before
    `last`.
    """

    message: int
    first: int
    last: int
    document: int | None = None


@dataclass(frozen=True)
class WrittenAnswer:
    """The answer that a context ends with: its item `begin` + i is token `first` + i."""

    message: int
    tokens: Tokens
    begin: int
    first: int = 0

    def index(self, item: int) -> int | None:
        """The token that an item is; None where that is unknown."""
        index = item - self.begin + self.first
        return index if item >= self.begin and index < len(self.tokens) else None


class _Placed(NamedTuple):
    """A message's text (from `inside` on), or its document's, is at `start` of the context's."""

    start: int
    message: int
    inside: int
    length: int
    document: int | None = None


class ContextMap:
    """Items are the tokens and picture rows of a context, in order, counted from 0."""

    def __init__(
        self,
        items: ContextItems,
        path: Sequence[Message],
        system: str = "",
        answer: WrittenAnswer | None = None,
    ) -> None:
        self._text, self._rows, self._answer = items.text, items.rows, answer
        self.ids: Ints = np.frombuffer(items.ids, "<i4")
        self._ends: list[int] = np.frombuffer(items.ends, "<i4").tolist()
        self._of_chat: Bools | None = None
        self._documents = {message.id: message.documents for message in path if message.documents}
        n_prompt = min(answer.begin, len(self)) if answer is not None else len(self)
        self._placed = list(self._place(path, system, self._ends[n_prompt - 1] if n_prompt else 0))

    def __len__(self) -> int:
        return len(self._ends)

    def text(self, item: int) -> str:
        """Return the text of an item; empty for a picture's row. Empty for a picture's row."""
        answer = self._answer
        if answer is not None and item >= answer.begin:
            index = answer.index(item)
            return answer.tokens[index].text if index is not None else ""
        if self.row_at(item) is not None:
            return ""
        return self._text[self._start(item) : self._ends[item]]

    def part(self, item: int) -> Part | None:
        """The characters of the chat that an item stands for; None for the template's own."""
        answer = self._answer
        if answer is not None and item >= answer.begin:
            index = answer.index(item)
            if index is None:
                return None
            return Part(answer.message, answer.tokens.start(index), answer.tokens.end(index))
        if item >= len(self) or self.row_at(item) is not None:
            return None
        first, last = self._start(item), self._ends[item]
        at = bisect_right(self._placed, first, key=lambda placed: placed.start) - 1
        for placed in self._placed[max(at, 0) : at + 2]:
            low = max(first, placed.start)
            high = min(last, placed.start + placed.length)
            if low < high:
                moved = placed.inside - placed.start
                return Part(placed.message, low + moved, high + moved, placed.document)
        return None

    def document(self, part: Part) -> Document | None:
        """The document that a part is of; None where it is of a message's own text."""
        found = self._documents.get(part.message, ()) if part.document is not None else ()
        return found[part.document] if part.document is not None and found else None

    def row_at(self, item: int) -> tuple[PlacedRows, int] | None:
        """The picture's rows that an item is of, and which row of its view it is."""
        for rows in self._rows:
            if rows.token <= item < rows.token + rows.count:
                return rows, rows.first + item - rows.token
        return None

    @property
    def rows(self) -> Sequence[PlacedRows]:
        """Where rows of pictures lie."""
        return self._rows

    def of_chat(self, count: int) -> Bools:
        """Which of the first items belong to the chat: to its words or to its pictures."""
        if self._of_chat is None:
            self._of_chat = np.zeros(len(self), bool)
            for placed in self._placed:
                self._of_chat[self._items(placed)] = True
            for rows in self._rows:
                self._of_chat[rows.token : rows.token + rows.count] = True
            if self._answer is not None:
                self._of_chat[self._answer.begin :] = True
        beyond = np.ones(max(0, count - len(self)), bool)  # what the answer has added
        return np.concatenate((self._of_chat[:count], beyond))

    def items_of(self, message: int) -> range:
        """The items that stand for a message's text; none where it is not in the context."""
        answer = self._answer
        if answer is not None and answer.message == message:
            end = answer.begin + len(answer.tokens) - answer.first
            return range(answer.begin, max(len(self), end))
        for placed in self._placed:
            if placed.message == message and placed.document is None:
                items = self._items(placed)
                return range(items.start, items.stop)
        return range(0)

    def _items(self, placed: _Placed) -> slice:
        first = bisect_right(self._ends, placed.start)
        return slice(first, bisect_left(self._ends, placed.start + placed.length) + 1)

    def _start(self, item: int) -> int:
        return self._ends[item - 1] if item else 0

    def _place(self, path: Sequence[Message], system: str, end: int) -> Iterator[_Placed]:
        """Find the texts one behind the other; those that the template leaves out are not there."""
        at = 0
        if system.strip():
            found = self._find(system.strip(), at, end)
            at = at if found is None else found + len(system.strip())
        for message in path:
            for text, inside in _readings(message):
                found = self._find(text, at, end)
                if found is not None:
                    yield _Placed(found, message.id, inside, len(text))
                    at = found + len(text)
                    break
            for index, document in enumerate(message.documents):
                body = document.body.strip()
                found = self._text.find(body, at, end) if body else -1
                if found >= 0:
                    inside = document.body.index(body)
                    yield _Placed(found, message.id, inside, len(body), index)
                    at = found + len(body)

    def _find(self, text: str, start: int, end: int) -> int | None:
        """Where a text stands as items of its own, best where something special follows it: "user"
        may also be what the template calls the speaker.
        """
        candidates: list[int] = []
        at = self._text.find(text, start, end) if text else -1
        while at >= 0 and len(candidates) < MOST_CANDIDATES:
            if self._begins_item(at):
                candidates.append(at)
            at = self._text.find(text, at + 1, end)
        for candidate in candidates:
            behind = self._text[candidate + len(text) :].lstrip()[:1]
            if behind in ("<", "[", ""):
                return candidate
        return candidates[0] if candidates else None

    def _begins_item(self, at: int) -> bool:
        """Return whether only white space is between the start of an item and an offset."""
        item = bisect_right(self._ends, at)
        return item < len(self) and not self._text[self._start(item) : at].strip()


def _readings(message: Message) -> Iterator[tuple[str, int]]:
    """Yield the forms that a template may give a message, each with its offset in the message."""
    for text, start in _forms(message):
        yield text.strip(), start + len(text) - len(text.lstrip())


def _forms(message: Message) -> Iterator[tuple[str, int]]:
    yield message.text, 0
    if message.role == "assistant":  # many leave out what was thought
        split = split_reasoning(message.text)
        if split.thought and len(split.answer_part.runs) == 1:
            yield split.answer, split.answer_start
