"""What the answer under way tells of its words."""

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
    """`inside` is of the latest word that was told of, None before there is one. The engine tells
    of as many words as cost little, not of all.
    """

    def __init__(self, chat: ChatState, changed: Callable[[], None]) -> None:
        self._chat, self._changed = chat, changed
        self.inside: Inside | None = None
        self.problem = ""
        self._context: ContextMap | None = None
        self._request: int | None = None

    def hear(self, told: TokenInside) -> None:
        """What an answer tells; nothing where it is not the one under way."""
        answer = self._chat.answer
        if answer is None or answer.request_id != told.id:
            return
        if told.id != self._request:
            self._begin(told.id)
        if told.problem:
            self.problem = told.problem
        index = answer.begun + told.index
        if told.context is not None:
            self._context = self._map_of(answer, told.context, index)
        if told.lens is not None or told.attention is not None:
            self.inside = self._inside_of(answer, told, index)
        elif told.step is not None and self.inside is not None:
            self.inside = replace(self.inside, step=told.step)
        self._changed()

    def forget(self) -> None:
        """No answer is under way, or nobody looks."""
        self.inside = self._context = self._request = None
        self.problem = ""

    def _begin(self, request: int) -> None:
        self.forget()
        self._request = request

    def _inside_of(self, answer: Answer, told: TokenInside, index: int) -> Inside:
        known = index < len(answer.tokens)
        lens = LensReading(told.lens) if told.lens is not None else None
        text = answer.tokens[index].text if known else lens.wanted_text if lens else ""
        places = told.attention.n_places if told.attention is not None else 0
        return Inside(
            Word(answer.message.id, index, text),
            self._context,
            places,
            lens=lens,
            attention=AttentionReading(told.attention) if told.attention is not None else None,
            choice=told.choice,
            step=told.step or (self.inside.step if self.inside is not None else None),
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
