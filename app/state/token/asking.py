"""Requests for all data of one token."""

from collections.abc import Callable

import msgspec

from app.state.selection import Selection
from app.state.talk.chat import ChatState
from app.state.token.contexts import Contexts
from app.state.token.questions import Question
from app.state.token.structure import ModelParts
from app.state.token.word import TOP, Conversation, Word

MOST_ROWS = 4 << 20  # bytes of full rows of attention that are asked for at once
FEWEST_PLACES = 256  # of a context, where its length is only estimated


class Asking:
    """Makes questions of the chat as it is now; None where there is nothing to be asked."""

    def __init__(
        self,
        chat: ChatState,
        selection: Selection,
        contexts: Contexts,
        parts: Callable[[], ModelParts | None],
    ) -> None:
        self._chat, self._selection, self._contexts, self._parts = chat, selection, contexts, parts

    def whole(self, message: int) -> Question | None:
        """Return all items of a message's text as one question."""
        talk = self._talk(message)
        return (talk, talk.whole()) if talk is not None else None

    def of(self, word: Word | None) -> Question | None:
        """All that can be told of a word."""
        talk = self._talk(word.message) if word is not None else None
        if word is None or talk is None:
            return None
        written = word.index < len(talk.tokens)
        asked = talk.written(word.index) if written else self._contexts.request(word.key, talk)
        if asked is None:
            return None
        asked = msgspec.structs.replace(
            asked,
            top_k=TOP,
            lens=True,
            attention_layers=self._layers_at_once(),
            sampling=self._chat.details.sampling,
            record=True,
        )
        return talk, asked

    def _talk(self, message: int) -> Conversation | None:
        row = self._chat.row_of(message)
        if row is None:
            return None
        path = self._chat.path[: row + 1]
        digests = self._chat.brought.digests(path)
        system = self._chat.details.system
        return Conversation(path[:row], path[row], self._chat.tokens(row), system, digests)

    def _layers_at_once(self) -> list[int]:
        """Whose rows of attention to ask for: of all layers, where they are few bytes."""
        parts, selected = self._parts(), self._selection.now.layer
        if parts is None:
            return []
        places = max(self._chat.context.used, FEWEST_PLACES)
        if parts.n_layer * parts.n_head * places * 4 <= MOST_ROWS:
            return list(range(parts.n_layer))
        return [selected] if selected is not None and selected < parts.n_layer else []
