"""A word of the chat, what is asked of the engine about it, and what is known of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.state.talk.answer import said
from app.state.talk.message import Message
from app.state.talk.tokens import Tokens
from app.state.token.context import ContextMap, WrittenAnswer
from app.state.token.readings import AttentionReading, LensReading
from engine.protocol import Edit, Examine, Examined, StepRecord, TokenChoice, Tools

TOP = 8  # words told of each layer

Key = tuple[int, int]
"""A message's id and the index of one of its tokens."""


@dataclass(frozen=True)
class Word:
    """Token `index` of a message and its text."""

    message: int
    index: int
    text: str

    @property
    def key(self) -> Key:
        return self.message, self.index


@dataclass(frozen=True)
class Inside:
    """All data on one token; None for what is not, or not yet.

    `n_computed` items of its context had to be computed for it.
    """

    word: Word
    context: ContextMap | None = None
    n_context: int = 0
    n_computed: int = 0
    lens: LensReading | None = None
    attention: AttentionReading | None = None
    choice: TokenChoice | None = None
    step: StepRecord | None = None
    note: str = ""


@dataclass(frozen=True)
class Conversation:
    """The conversation before a token: the path up to its message, and that message.

    `tokens` are the message's, as far as the open model wrote them, with these `edits`.
    """

    before: Sequence[Message]
    message: Message
    tokens: Tokens
    system: str
    digests: Mapping[str, str]
    edits: Sequence[Edit] = ()

    @property
    def path(self) -> list[Message]:
        return [*self.before, self.message]

    def written(self, index: int) -> Examine:
        """Asks for token `index` of an answer: the context is all before it."""
        known = self.tokens.begin == 0
        return Examine(
            0,
            messages=said(self.system, self.before, self.digests),
            prefix=self.message.text[: self.tokens.start(index)],
            prefix_tokens=self.tokens.ids[:index] if known else [],
            wanted=self.tokens[index].token,
            tools=self._tools,
            edits=list(self.edits),
        )

    def whole(self) -> Examine:
        """Asks for the items of the messages, this one among them; computes nothing."""
        messages = said(self.system, self.path, self.digests)
        return Examine(0, messages=messages, tools=self._tools)

    @property
    def _tools(self) -> Tools:
        """The tools that the prompt of the answer offered."""
        return Tools(list(self.message.tools))

    def map_of(self, asked: Examine, told: Examined) -> ContextMap:
        """Where the items of what was asked stand in the chat."""
        if not asked.prefix and not asked.prefix_tokens:
            return ContextMap(told.items, self._asked_path(asked), self.system)
        if asked.prefix_tokens:
            begin = len(told.items.ids) // 4 - len(asked.prefix_tokens)
            written = self.tokens.first(len(asked.prefix_tokens))
            answer = WrittenAnswer(self.message.id, written, begin)
            return ContextMap(told.items, self.before, self.system, answer)
        begun = replace(self.message, text=asked.prefix)
        return ContextMap(told.items, [*self.before, begun], self.system)

    def _asked_path(self, asked: Examine) -> list[Message]:
        spoken = len(asked.messages) - bool(self.system)
        return self.path[:spoken]


def inside_of(word: Word, told: Examined, context: ContextMap | None) -> Inside:
    """Convert the engine's data on a token for display."""
    return Inside(
        word,
        context,
        told.n_context,
        told.n_computed,
        LensReading(told.lens) if told.lens is not None else None,
        AttentionReading(told.attention) if told.attention is not None else None,
        told.choice,
        told.step,
        told.note,
    )
