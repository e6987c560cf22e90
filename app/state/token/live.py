"""Live data on the tokens of the current answer."""

from collections.abc import Callable
from dataclasses import replace

from app.state.talk.answer import Answer
from app.state.talk.chat import ChatState
from app.state.talk.message import Message
from app.state.token.context import ContextMap, WrittenAnswer
from app.state.token.readings import AttentionReading, LensReading
from app.state.token.word import Inside, Word
from engine.protocol import ContextItems, TokenInside


class LiveInside:
    """`inside` is None before the engine has told of a word. It tells of as many words as cost
    little, not of all.
    """

    def __init__(self, chat: ChatState, changed: Callable[[], None]) -> None:
        self._chat, self._changed = chat, changed
        # By request, also of answers in chats that are not shown now.
        self._insides: dict[int, Inside] = {}
        self._contexts: dict[int, ContextMap] = {}

    @property
    def inside(self) -> Inside | None:
        """The latest word of the answer that the open chat is getting."""
        answer = self._chat.running
        return None if answer is None else self._insides.get(answer.sent.id if answer.sent else 0)

    def hear(self, told: TokenInside) -> None:
        """Take in what an answer under way tells of a word."""
        answer = next(
            (one for one in self._chat.writers.answers if one.sent and one.sent.id == told.id), None
        )
        if answer is None:
            return
        index, known = answer.begun + told.index, self._insides.get(told.id)
        if told.context is not None:
            self._contexts[told.id] = self._map_of(answer, told.context, index)
        if told.lens is not None or told.attention is not None:
            self._insides[told.id] = self._inside_of(answer, told, index)
        elif told.step is not None and known is not None:
            self._insides[told.id] = replace(known, step=told.step)
        self._changed()

    def forget_words(self) -> None:
        """The view is hidden or does not follow. Contexts stay: the engine sends each once."""
        self._insides = {}

    def forget_ended(self) -> None:
        """Drop what was told of answers that have ended."""
        running = {answer.sent.id for answer in self._chat.writers.answers if answer.sent}
        self._insides = {n: inside for n, inside in self._insides.items() if n in running}
        self._contexts = {n: known for n, known in self._contexts.items() if n in running}

    def _inside_of(self, answer: Answer, told: TokenInside, index: int) -> Inside:
        known = index < len(answer.tokens)
        lens = LensReading(told.lens) if told.lens is not None else None
        text = answer.tokens[index].text if known else lens.wanted_text if lens else ""
        places = told.attention.n_places if told.attention is not None else 0
        before = self._insides.get(told.id)
        return Inside(
            Word(answer.message.id, index, text),
            self._contexts.get(told.id),
            places,
            lens=lens,
            attention=AttentionReading(told.attention) if told.attention is not None else None,
            choice=told.choice,
            step=told.step or (before.step if before is not None else None),
        )

    def _map_of(self, answer: Answer, items: ContextItems, index: int) -> ContextMap:
        """Where the items stand in the chat; those from number `index` of the answer on follow."""
        count = len(items.ids) // 4
        shifted = count < index
        begin, first = (count, index) if shifted else (count - index, 0)
        before: list[Message] = list(answer.asked)
        if answer.tokens.begin:  # what was answered before without tokens
            begun = answer.message.text[: answer.tokens.begin]
            before.append(replace(answer.message, text=begun))
        written = WrittenAnswer(answer.message.id, answer.tokens, begin, first)
        return ContextMap(items, before, self._chat.details.system, written)
