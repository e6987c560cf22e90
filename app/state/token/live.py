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
    """`inside` is None before the first word. The engine reports as many words as cost
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

    def add(self, inside: TokenInside) -> None:
        """Add what an answer under way reports of a word."""
        answer = next(
            (one for one in self._chat.writers.answers if one.sent and one.sent.id == inside.id),
            None,
        )
        if answer is None:
            return
        index, known = answer.begun + inside.index, self._insides.get(inside.id)
        if inside.context is not None:
            self._contexts[inside.id] = self._map_of(answer, inside.context, index)
        if inside.lens is not None or inside.attention is not None:
            self._insides[inside.id] = self._inside_of(answer, inside, index)
        elif inside.step is not None and known is not None:
            self._insides[inside.id] = replace(known, step=inside.step)
        self._changed()

    def forget_words(self) -> None:
        """The view is hidden or does not follow. Contexts stay: the engine sends each once."""
        self._insides = {}

    def forget_ended(self) -> None:
        """Drop words of answers that have ended."""
        running = {answer.sent.id for answer in self._chat.writers.answers if answer.sent}
        self._insides = {n: inside for n, inside in self._insides.items() if n in running}
        self._contexts = {n: known for n, known in self._contexts.items() if n in running}

    def _inside_of(self, answer: Answer, inside: TokenInside, index: int) -> Inside:
        known = index < len(answer.tokens)
        lens = LensReading(inside.lens) if inside.lens is not None else None
        text = answer.tokens[index].text if known else lens.wanted_text if lens else ""
        places = inside.attention.n_places if inside.attention is not None else 0
        before = self._insides.get(inside.id)
        return Inside(
            Word(answer.message.id, index, text),
            self._contexts.get(inside.id),
            places,
            lens=lens,
            attention=AttentionReading(inside.attention) if inside.attention is not None else None,
            choice=inside.choice,
            step=inside.step or (before.step if before is not None else None),
        )

    def _map_of(self, answer: Answer, items: ContextItems, index: int) -> ContextMap:
        """Where the items stand in the chat; those from number `index` of the answer on follow."""
        count = len(items.ids) // 4
        shifted = count < index
        begin, first = (count, index) if shifted else (count - index, 0)
        before: list[Message] = list(answer.prompt_messages)
        if answer.tokens.begin:  # what was answered before without tokens
            begun = answer.message.text[: answer.tokens.begin]
            before.append(replace(answer.message, text=begun))
        written = WrittenAnswer(answer.message.id, answer.tokens, begin, first)
        return ContextMap(items, before, self._chat.details.system, written)
