"""Requests for all data of one token, with contexts for words that no answer's tokens cover, and
the structure of a model from its file's header.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from app.state.selection import Selection
from app.state.talk.chat import ChatState
from app.state.token.context import ContextMap, Part
from app.state.token.questions import Question
from app.state.token.word import TOP, Conversation, Key, Word
from engine.protocol import Examine, FileContent

KEPT = 4


class Contexts:
    """The last few, each with its request; they are of one model and one system prompt."""

    def __init__(self) -> None:
        self._known: list[tuple[Examine, ContextMap]] = []

    def keep(self, request: Examine, context: ContextMap) -> None:
        """Remember one."""
        others = [known for known in self._known if known[0] != request]
        self._known = [*others, (request, context)][-KEPT:]

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
        """Requests a word at its place in a context; None where that is not known."""
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


@dataclass(frozen=True)
class ModelParts:
    """Layers, query heads, key-value heads, the window in tokens (0: none), the vocabulary."""

    n_layer: int
    n_head: int
    n_kv_head: int
    window: int
    n_vocab: int


def parts_of(content: FileContent | None) -> ModelParts | None:
    """From the header; None where it names no layers or no heads."""
    if content is None:
        return None
    known = {row.key.removeprefix(f"{content.architecture}."): row for row in content.metadata}

    def number(key: str) -> int:
        row = known.get(key)
        text = row.value if row is not None else ""
        if row is not None and row.count is not None:  # one for each layer: the most
            found = [int(part) for part in text.strip("[]…. ").split(", ") if part.isdecimal()]
            return max(found, default=0)
        return int(text) if text.isdecimal() else 0

    n_layer, n_head = number("block_count"), number("attention.head_count")
    if not n_layer or not n_head:
        return None
    vocabulary = known.get("tokenizer.ggml.tokens")
    n_vocab = (vocabulary.count if vocabulary is not None else None) or number("vocab_size")
    n_kv_head = number("attention.head_count_kv") or n_head
    return ModelParts(n_layer, n_head, n_kv_head, number("attention.sliding_window"), n_vocab)


MOST_ROWS = 4 << 20  # bytes of full rows of attention that are requested at once
FEWEST_PLACES = 256  # of a context, where its length is only estimated


class QuestionMaker:
    """Makes questions of the chat as it is now; None where there is no question.
    `lens_file` is a lens to read layers with in place of the logit lens.
    """

    def __init__(
        self,
        chat: ChatState,
        selection: Selection,
        contexts: Contexts,
        parts: Callable[[], ModelParts | None],
    ) -> None:
        self._chat, self._selection, self._contexts, self._parts = chat, selection, contexts, parts
        self.lens_file = ""

    def whole(self, message: int) -> Question | None:
        """Return all items of a message's text as one question."""
        talk = self._talk(message)
        return (talk, talk.whole()) if talk is not None else None

    def of(self, word: Word | None) -> Question | None:
        """All that can be known of a word."""
        talk = self._talk(word.message) if word is not None else None
        if word is None or talk is None:
            return None
        written = word.index < len(talk.tokens)
        request = talk.written(word.index) if written else self._contexts.request(word.key, talk)
        if request is None:
            return None
        request = msgspec.structs.replace(
            request,
            top_k=TOP,
            lens=True,
            lens_file=self.lens_file,
            attention_layers=self._layers_at_once(),
            sampling=self._chat.details.sampling,
            record=True,
        )
        return talk, request

    def _talk(self, message: int) -> Conversation | None:
        row = self._chat.row_of(message)
        if row is None:
            return None
        path = self._chat.path[: row + 1]
        digests = self._chat.pictures_in_engine.digests(path)
        system = self._chat.details.system
        arguments = (path[:row], path[row], self._chat.tokens(row), system, digests)
        return Conversation(*arguments, self._chat.edits.of(path[row]))

    def _layers_at_once(self) -> list[int]:
        """Whose rows of attention to request: of all layers, where they are few bytes."""
        parts, selected = self._parts(), self._selection.now.layer
        if parts is None:
            return []
        places = max(self._chat.context.used, FEWEST_PLACES)
        if parts.n_layer * parts.n_head * places * 4 <= MOST_ROWS:
            return list(range(parts.n_layer))
        return [selected] if selected is not None and selected < parts.n_layer else []
