"""A word of the chat, the requests about it, and what is known of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.state.talk.answer import as_messages
from app.state.talk.message import Message
from app.state.talk.tokens import Tokens
from app.state.token.context import ContextMap, WrittenAnswer
from app.state.token.readings import AttentionReading, LensReading
from engine.protocol import Edit, Examine, Examined, StepRecord, TokenChoice, Tools

TOP = 8  # words of each layer

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
        """Requests token `index` of an answer: the context is all before it."""
        known = self.tokens.begin == 0
        return Examine(
            0,
            messages=as_messages(self.system, self.before, self.digests),
            prefix=self.message.text[: self.tokens.start(index)],
            prefix_tokens=self.tokens.ids[:index] if known else [],
            wanted=self.tokens[index].token,
            tools=self._tools,
            edits=list(self.edits),
        )

    def whole(self) -> Examine:
        """Requests the items of the messages, this one among them; computes nothing."""
        messages = as_messages(self.system, self.path, self.digests)
        return Examine(0, messages=messages, tools=self._tools)

    @property
    def _tools(self) -> Tools:
        """The tools that the prompt of the answer offered."""
        return Tools(list(self.message.tools))

    def map_of(self, request: Examine, examined: Examined) -> ContextMap:
        """Where the items of a request are in the chat."""
        if not request.prefix and not request.prefix_tokens:
            return ContextMap(examined.items, self._path_before(request), self.system)
        if request.prefix_tokens:
            begin = len(examined.items.ids) // 4 - len(request.prefix_tokens)
            written = self.tokens.first(len(request.prefix_tokens))
            answer = WrittenAnswer(self.message.id, written, begin)
            return ContextMap(examined.items, self.before, self.system, answer)
        begun = replace(self.message, text=request.prefix)
        return ContextMap(examined.items, [*self.before, begun], self.system)

    def _path_before(self, request: Examine) -> list[Message]:
        spoken = len(request.messages) - bool(self.system)
        return self.path[:spoken]


def inside_of(word: Word, examined: Examined, context: ContextMap | None) -> Inside:
    """Convert the engine's data on a token for display."""
    return Inside(
        word,
        context,
        examined.n_context,
        examined.n_computed,
        LensReading(examined.lens) if examined.lens is not None else None,
        AttentionReading(examined.attention) if examined.attention is not None else None,
        examined.choice,
        examined.step,
        examined.note,
    )
