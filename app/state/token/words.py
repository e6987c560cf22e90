"""The words of the open chat: tokens of answers, and what the engine tells of other texts."""

from app.state.talk.chat import ChatState
from app.state.token.contexts import Contexts
from app.state.token.word import Key, Word


class ChatWords:
    """By a message's id and an index; None or 0 for what is not in the chat or not known."""

    def __init__(self, chat: ChatState, contexts: Contexts) -> None:
        self._chat, self._contexts = chat, contexts

    def has(self, message: int) -> bool:
        """Return whether a message is in the visible path."""
        return self._chat.row_of(message) is not None

    def word(self, key: Key) -> Word | None:
        """The word with its text."""
        row = self._chat.row_of(key[0])
        if row is None:
            return None
        tokens = self._chat.tokens(row)
        if key[1] < len(tokens):
            return Word(*key, tokens[key[1]].text)
        text = self._contexts.text(key)
        return Word(*key, text) if text is not None else None

    def part(self, key: Key) -> tuple[int, int] | None:
        """The characters of the message that a word stands for."""
        row = self._chat.row_of(key[0])
        tokens = self._chat.tokens(row) if row is not None else None
        if tokens is not None and key[1] < len(tokens):
            return tokens.start(key[1]), tokens.end(key[1])
        part = self._contexts.part(key)
        return (part.first, part.last) if part is not None else None

    def index_at(self, message: int, position: int) -> int | None:
        """The word at a place of a message's text."""
        row = self._chat.row_of(message)
        index = self._chat.tokens(row).at(position) if row is not None else None
        return self._contexts.index_at(message, position) if index is None else index

    def count(self, message: int) -> int:
        """How many words a message has."""
        row = self._chat.row_of(message)
        known = len(self._chat.tokens(row)) if row is not None else 0
        return known or self._contexts.count(message)

    def newest(self) -> Key | None:
        """The last word of the answer under way, or of the one before it."""
        latest = self._chat.latest
        row = self._chat.row_of(latest.id) if latest is not None else None
        if latest is None or row is None or not len(self._chat.tokens(row)):
            return None
        return latest.id, len(self._chat.tokens(row)) - 1
