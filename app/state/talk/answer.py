"""One answer being written: pieces become text and tokens, and are saved now and then."""

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from app.client import PendingRequest
from app.state.presets import NONE, AnswerLimits
from app.state.talk.edits import EditSet
from app.state.talk.message import Message
from app.state.talk.tokens import Tokens
from app.state.talk.tree import Tree
from app.tools.calling import CollectedCalls, ToolUse, with_results
from engine.protocol import (
    Alternative,
    AnswerForm,
    ChatMessage,
    Edit,
    Generate,
    PicturePart,
    Piece,
    Sampling,
    Stats,
    TextPart,
    TokenInfo,
    Tools,
)

LOGPROBS = 10
Request = Callable[[Mapping[str, str]], Generate]
"""Makes the request from the engine's digests of pictures by their hashes."""
NOTHING_COUNTED = Stats(0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0, 0)
NO_DIGESTS: Mapping[str, str] = {}
NO_TOOLS = Tools()


class Answer:
    """The message, its tokens, and the tree it belongs to, which may be of a chat not shown.

    `sent` is None until the request is sent. What the message says already goes on: by ids
    where all of it came as tokens of the same model, else by its text. `before` are the statistics
    of the answer that is continued, `begun` how many tokens of it there were. `edits` are those of
    the request, with vectors, which the message names. `again` makes the request of the answer that
    follows calls.
    """

    def __init__(
        self,
        message: Message,
        tokens: Tokens,
        tree: Tree,
        by_ids: bool,
        before: Stats | None = None,
        edits: Sequence[Edit] = (),
    ) -> None:
        self.message, self.tokens, self.tree = message, tokens, tree
        self._stats_before = before
        self.begun = len(tokens)
        self.sent: PendingRequest | None = None
        self._by_ids = by_ids
        self._before_first = True
        self._collected = CollectedCalls()
        self.tools: tuple[str, ...] = ()  # names of built-in tools and of servers
        self.again: Callable[[Answer], Request] | None = None
        self.edits = list(edits)
        self.revisions: list[EditSet] = []  # values of the edits that were sent since

    @property
    def prompt_messages(self) -> list[Message]:
        """The messages that it answers."""
        parent = None if self.message.parent is None else self.tree.messages[self.message.parent]
        return self.tree.up_to(parent)

    def request(
        self,
        system: str,
        sampling: Sampling,
        limits: AnswerLimits = NONE,
        digests: Mapping[str, str] = NO_DIGESTS,
        form: AnswerForm | None = None,
        tools: Tools = NO_TOOLS,
    ) -> Generate:
        """Make the engine's request; pictures are referred to by `digests`."""
        return Generate(
            0,
            messages=as_messages(system, self.prompt_messages, digests),
            sampling=sampling,
            max_tokens=limits.max_tokens,
            stop=limits.stop,
            when_full=limits.when_full,
            stop_loops=limits.stop_loops,
            logprobs=LOGPROBS,
            watch=True,
            prefix=self.message.text,
            prefix_tokens=self.tokens.ids if self._by_ids else [],
            edits=self.edits,
            form=form,
            tools=tools,
        )

    def take(self, pieces: Sequence[Piece]) -> int:
        """Append pieces; returns the index of the first token that is new or longer than before."""
        first, length = len(self.tokens), len(self.message.text)
        for piece in pieces:
            length += len(piece.text)
            if piece.tokens:
                self.tokens.append(piece.tokens, length)
                self._before_first = False
            elif self._before_first:
                self.tokens.extend_last(length)  # the rest of what `prefix_tokens` say
                first = min(first, max(0, len(self.tokens) - 1))
        self.message.text += "".join([piece.text for piece in pieces])
        parts = [piece.call for piece in pieces if piece.call is not None]
        for part in parts:
            self._collected.add(part)
        if parts:
            self.message.calls = tuple(
                ToolUse(call.id, call.name, call.arguments, "writing")
                for call in self._collected.calls
            )
        self.message.n_tokens = len(self.tokens)
        return first

    def count(self, stats: Stats) -> None:
        """Store the engine's statistics, together with what it had counted of the beginning; the
        edits are the message's.
        """
        before, stats = self._stats_before, replace(stats, changes=[], edits=[])
        self.message.stats = stats if before is None else _together(before, stats)


def as_messages(
    system: str, messages: Sequence[Message], digests: Mapping[str, str] = NO_DIGESTS
) -> list[ChatMessage]:
    """Convert a chat to messages for the engine; pictures that are not in `digests`
    stand under their own hash.
    """
    begun = [ChatMessage("system", system)] if system else []
    return begun + [turn for message in messages for turn in _turns(message, digests)]


def _turns(message: Message, digests: Mapping[str, str]) -> list[ChatMessage]:
    """A message as the model reads it; an answer with calls is followed by their results."""
    if not message.calls:
        return [ChatMessage(message.role, _content(message, digests))]
    limits = {picture.hash: picture.limits for picture in message.pictures}
    parts = [
        [PicturePart(digests.get(h, h), limits[h]) for h in use.pictures if h in limits]
        for use in message.calls
    ]
    return with_results(message.text, message.calls, parts)


def _content(message: Message, digests: Mapping[str, str]) -> str | list[TextPart | PicturePart]:
    if not message.pictures:
        return message.prompt
    parts: list[TextPart | PicturePart] = [
        PicturePart(digests.get(p.hash, p.hash), p.limits) for p in message.pictures
    ]
    return [*parts, TextPart(message.prompt)] if message.prompt else parts


def continued(message: Message, tokens: Tokens, by_ids: bool) -> tuple[str, Tokens]:
    """The text and the tokens that a continued answer begins with."""
    text = message.text
    if by_ids:
        return text[: tokens.end(len(tokens) - 1)], tokens  # without a half character's U+FFFD
    return text, tokens if len(tokens) else Tokens(begin=len(text))


def branched(
    message: Message, tokens: Tokens, index: int, other: Alternative, by_ids: bool
) -> tuple[str, Tokens]:
    """Return the start of an answer whose token at `index` is replaced by another."""
    kept = tokens.first(index)
    # By ids the engine sends the token's text itself, which may be part of a character.
    text = message.text[: tokens.start(index)] + ("" if by_ids else other.text)
    kept.append([TokenInfo(other.token, other.logprob, other.text, tokens[index].top)], len(text))
    return text, kept


def _together(first: Stats, then: Stats) -> Stats:
    """Combine the statistics of an answer and its continuation;"""
    return replace(
        first,
        n_generated=first.n_generated + then.n_generated,
        decode_s=first.decode_s + then.decode_s,
        seed=then.seed,
        n_context=then.n_context,
        n_shifts=first.n_shifts + then.n_shifts,
        n_truncated=first.n_truncated + then.n_truncated,
        n_forgotten=first.n_forgotten + then.n_forgotten,
        n_drafted=first.n_drafted + then.n_drafted,
        n_accepted=first.n_accepted + then.n_accepted,
        saved_s=first.saved_s + then.saved_s,
        encode_s=first.encode_s + then.encode_s,
    )
