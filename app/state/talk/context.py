"""How messages fill the context, and the number of tokens of the draft."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QObject, QTimer, Signal

from app.client import Latest
from app.state.session import Session
from app.state.talk.details import Text
from app.state.talk.message import Message, Picture
from engine.protocol import CountTokens, Failed, TokenCount

CHARACTERS_A_TOKEN = 4  # of English, where nothing was counted yet


class Share(NamedTuple):
    """Tokens of one message with the template's words around it; `counted` or estimated.

    `row` is its place in the path, None for the system prompt and for the pictures of the `draft`.
    """

    row: int | None
    tokens: int
    counted: bool
    draft: bool = False


@dataclass(frozen=True)
class ContextUse:
    """`shares` in the order of the prompt; `n_ctx` is 0 while no model is open. `whole` where
    the share of the draft has its text, too, and all that the template adds.
    """

    shares: tuple[Share, ...]
    n_ctx: int
    whole: bool = False

    @cached_property
    def used(self) -> int:
        """Tokens of all messages; may pass `n_ctx`, then the engine leaves some out."""
        return sum(share.tokens for share in self.shares)

    @property
    def over(self) -> int:
        """Tokens that are too many for the context; 0 where all fit or no model is open."""
        return max(0, self.used - self.n_ctx) if self.n_ctx else 0

    def exactly(self, prompt: int) -> "ContextUse":
        """The same with a draft that makes the whole prompt so many tokens."""
        others = tuple(share for share in self.shares if not share.draft)
        rest = max(0, prompt - sum(share.tokens for share in others))
        return ContextUse((*others, Share(None, rest, True, draft=True)), self.n_ctx, whole=True)

    @cached_property
    def counted(self) -> bool:
        """True if no part is an estimate."""
        return all(share.counted for share in self.shares)


def context_use(
    path: Sequence[Message],
    system: str,
    n_ctx: int,
    tokens_of: Callable[[Sequence[Picture]], int | None] = lambda pictures: None,
    draft: Sequence[Picture] = (),
    documents: int | None = 0,
) -> ContextUse:
    """Estimate how many context tokens the messages of a path and the attached pictures take, with
    those of the attached `documents`, None where they are not counted.

    An answer's statistics count its whole prompt; what of it is not in earlier messages belongs
    to the questions since then, by their lengths. Without statistics it is an estimate, but for
    pictures: `tokens_of` shows what they take, None where it does not know.
    """
    shares: list[Share] = []
    waiting: list[tuple[int, int, int]] = []  # place in shares, characters, tokens of pictures
    if system:
        waiting.append((0, len(system), 0))
        shares.append(Share(None, _estimate(len(system)), counted=False))
    for row, message in enumerate(path):
        if message.role == "assistant" and (message.n_tokens or message.stats is not None):
            if message.stats is not None and message.stats.n_shifts == 0:
                _count(shares, waiting, _prompt(message))
                waiting = []
            shares.append(Share(row, message.n_tokens, counted=True))
        else:
            seen = (tokens_of(message.pictures) or 0) if message.pictures else 0
            length = len(message.prompt)
            waiting.append((len(shares), length, seen))
            shares.append(Share(row, seen + _estimate(length), counted=False))
    if draft or documents != 0:
        known = tokens_of(draft) if draft else 0
        counted = known is not None and documents is not None
        shares.append(Share(None, (known or 0) + (documents or 0), counted, draft=True))
    return ContextUse(tuple(shares), n_ctx)


def _prompt(answer: Message) -> int:
    """Tokens in front of an answer; of one that was continued its beginning is no prompt."""
    assert answer.stats is not None
    begun = max(0, answer.n_tokens - answer.stats.n_generated)
    return answer.stats.n_prompt + answer.stats.n_truncated - begun


def _count(shares: list[Share], waiting: list[tuple[int, int, int]], prompt: int) -> None:
    """Replace estimates so that all shares together are `prompt` tokens."""
    places = {place for place, _, _ in waiting}
    left = prompt - sum(share.tokens for n, share in enumerate(shares) if n not in places)
    characters = sum(length for _, length, _ in waiting)
    pictures = sum(seen for _, _, seen in waiting)
    for place, length, seen in waiting:
        text = round(max(0, left - pictures) * length / max(1, characters))
        part = left if place == waiting[-1][0] else text + seen
        left, characters, pictures = left - part, characters - length, pictures - seen
        shares[place] = Share(shares[place].row, max(0, part), counted=True)


def _estimate(characters: int) -> int:
    return -(-characters // CHARACTERS_A_TOKEN)


WAIT_MS = 250


class DraftTokens(QObject):
    """`count` is None while it is not known."""

    changed = Signal()

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.count: int | None = None
        self._text: Text = ""
        self._of: Path | None = None  # whose tokenizer was used last
        self._request = Latest(session.client)
        self._soon = QTimer(self, singleShot=True, interval=WAIT_MS)
        self._soon.timeout.connect(self._begin)
        session.changed.connect(self._model_changed)

    def set_text(self, text: Text) -> None:
        """Count this text soon, or what returns it then, in place of what was to be counted."""
        self._text = text
        self._request.forget()
        if not text:
            self._soon.stop()
            self._set(0)
        else:
            self._soon.start()

    def _model_changed(self) -> None:
        if self._of is not None and self._of != self._session.path:
            self._of = None
            self._set(None if self._text else 0)
        if self._session.model is not None and self._of is None and self._text:
            self._soon.start()

    def _begin(self) -> None:
        session = self._session
        if session.model is None or not session.client.abilities.tokenize:
            self._set(None)  # unknown, until a model is open
            return
        self._of = session.path
        if callable(self._text):
            self._text = self._text()
        request = CountTokens(0, str(session.path), self._text)
        self._request.send(request, self._counted, self._failed)

    def _counted(self, counted: TokenCount) -> None:
        self._set(counted.count if self._text else 0)

    def _failed(self, failed: Failed) -> None:
        self._set(None)

    def _set(self, count: int | None) -> None:
        if count != self.count:
            self.count = count
            self.changed.emit()
