"""Causes of a word of an answer: a patching map of the chat before it, against another question,
and the effects of heads that such a map found.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Signal

from app.state.lab.runs import RunsState, effects_of
from app.state.selection import Selected, link_of
from app.state.session import Session
from app.state.talk.answer import as_messages
from app.state.talk.chat import ChatState
from app.state.talk.message import Message
from app.state.token.token import TokenState
from app.state.token.word import Conversation, Key, Word
from engine.protocol import ComparedText, Examine, PatchesMapped, PatchGrid

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class ExaminedWord:
    """A word of an answer, with the conversation and the request that examines it."""

    word: Word
    talk: Conversation
    request: Examine

    @property
    def token(self) -> int:
        """The word's id."""
        return self.request.wanted or 0

    @property
    def question(self) -> str:
        """The text of the last question before the word."""
        return self._questions[-1].text

    @property
    def clean(self) -> ComparedText:
        """The chat and the answer before the word."""
        return self._text(self.talk.before)

    def other(self, question: str) -> ComparedText:
        """The same with another last question."""
        last = self._questions[-1]
        return self._text(
            [replace(one, text=question) if one is last else one for one in self.talk.before]
        )

    @property
    def _questions(self) -> list[Message]:
        return [one for one in self.talk.before if one.role == "user"]

    def _text(self, messages: Sequence[Message]) -> ComparedText:
        request = self.request
        turns = as_messages(self.talk.system, messages, self.talk.digests)
        edits, tokens = list(request.edits), list(request.prefix_tokens)
        return ComparedText(turns, None, edits, request.prefix, tokens, request.tools)


class Causes(QObject):
    """`begun` is the word whose map is described in the sheet of runs, in cells of a `grid`."""

    wanted = Signal()  # the sheet that maps `begun`

    def __init__(
        self,
        session: Session,
        chat: ChatState,
        token: TokenState,
        runs: RunsState,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self._chat, self._token, self._runs = session, chat, token, runs
        self.begun: ExaminedWord | None = None
        self.grid: PatchGrid = "residual"

    @property
    def can_begin(self) -> bool:
        """True if the word that is looked at is of an answer that the open model wrote to texts."""
        word, session = self._token.word, self._session
        row = self._chat.row_of(word.message) if word is not None else None
        if word is None or row is None or session.model is None or session.path is None:
            return False
        path = self._chat.path[: row + 1]
        ours = path[-1].role == "assistant" and path[-1].model == session.model_name
        known = word.index < len(self._chat.tokens(row))
        return ours and known and len(path) > 1 and not any(one.pictures for one in path)

    def begin(self, grid: PatchGrid = "residual") -> bool:
        """Describe the map of the word that is looked at; False if there can be none."""
        question = self._token.questions_of_chat.of(self._token.word) if self.can_begin else None
        if question is None or self._token.word is None:
            return False
        word = ExaminedWord(self._token.word, *question)
        self.begun, self.grid = word, grid
        self.wanted.emit()
        return True

    def heads(self, word: Word | None) -> tuple[list[int], Floats] | None:
        """Layers, and the effects [layers, heads] that the newest map of a word found."""
        kept = self._runs.of_word(word.key) if word is not None else ()
        for found in kept:
            if found.grid == "heads" and found.tables:
                return found.layers, effects_of(found, 0)
        return None

    def link(self, found: PatchesMapped, key: Key, row: int, column: int) -> str:
        """The link of a map's cell: its word with the layer or head. Follow it before `look`."""
        layer = found.layers[row]
        head = found.columns[column] if found.grid == "heads" else None
        return link_of(Selected(token=key, layer=layer, head=head))

    def look(self, found: PatchesMapped, key: Key, column: int) -> None:
        """Look at the token of a map's column, if its columns are positions."""
        if found.grid in ("residual", "parts"):
            patched = found.columns[column]
            pairs = dict(found.pairs)
            item = patched if found.direction == "noising" else pairs.get(patched)
            if item is not None:
                self._token.look_at_item(key, item)
