"""Contexts that the engine has told of, for words that no answer's tokens tell of."""

import msgspec

from app.state.token.context import ContextMap, Part
from app.state.token.word import Conversation, Key
from engine.protocol import Examine

KEPT = 4


class Contexts:
    """The last few, each with what was asked; they are of one model and one system prompt."""

    def __init__(self) -> None:
        self._known: list[tuple[Examine, ContextMap]] = []

    def keep(self, asked: Examine, context: ContextMap) -> None:
        """Remember one that was told."""
        others = [known for known in self._known if known[0] != asked]
        self._known = [*others, (asked, context)][-KEPT:]

    def forget(self) -> None:
        """None of them holds any more."""
        self._known = []

    def context(self, message: int) -> ContextMap | None:
        """The latest that a message is in."""
        found = self._of(message)
        return found[1] if found is not None else None

    def item(self, key: Key) -> int | None:
        """Where in its context a message's word is."""
        found = self._of(key[0])
        return found[1].items_of(key[0])[key[1]] if found and key[1] < self.count(key[0]) else None

    def text(self, key: Key) -> str | None:
        """Return the text of a token, or None."""
        found, item = self._of(key[0]), self.item(key)
        return found[1].text(item) if found is not None and item is not None else None

    def part(self, key: Key) -> Part | None:
        """The characters of its message that a word stands for."""
        found, item = self._of(key[0]), self.item(key)
        return found[1].part(item) if found is not None and item is not None else None

    def count(self, message: int) -> int:
        """How many words a message has; 0 where it is in no context that is known."""
        found = self._of(message)
        return len(found[1].items_of(message)) if found is not None else 0

    def index_at(self, message: int, position: int) -> int | None:
        """Which of a message's words stands at a place of its text, or is the next one there."""
        found = self._of(message)
        if found is None:
            return None
        for index, item in enumerate(found[1].items_of(message)):
            part = found[1].part(item)
            if part is not None and part.message == message and position < part.last:
                return index
        return None

    def request(self, key: Key, talk: Conversation) -> Examine | None:
        """Asks for a word at its place in a context; None where that is not known."""
        found, item = self._of(key[0]), self.item(key)
        if found is None or item is None:
            return None
        whole = talk.whole()
        if found[0].messages[: len(whole.messages)] != whole.messages:
            return None
        return msgspec.structs.replace(found[0], at=item, wanted=None)

    def _of(self, message: int) -> tuple[Examine, ContextMap] | None:
        known = reversed(self._known)
        return next((one for one in known if one[1].items_of(message)), None)
