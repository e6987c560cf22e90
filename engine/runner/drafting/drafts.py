"""The drafts of one answer: who makes them, and what became of them."""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from engine.runner.drafting.economy import MOST, Account, Chances
from engine.runner.drafting.rewritten import SURE, Rewritten


class Draft(NamedTuple):
    """Tokens that may follow, and who says so."""

    tokens: list[int]
    source: str


NO_DRAFT = Draft([], "")


class Form(Protocol):
    """The form that an answer is held to, at its end."""

    def forced(self) -> list[int]:
        """The only tokens that may follow."""

    def fitting(self, tokens: list[int]) -> int:
        """How many of these may follow one after the other."""


class Drafts:
    """Drafts for what follows a `text` that grows, by the first of `kinds` that has any: tokens
    that its `form` forces, a long earlier match of its end, what a `model` guesses, a shorter
    match. What is drawn then teaches the `chances`, whether the draft was computed or not.
    """

    def __init__(
        self,
        text: Sequence[int],
        form: Form | None,
        chances: Chances,
        most: int = MOST,
        kinds: Collection[str] = ("ngram",),
        model: Callable[[int], Draft] | None = None,
    ) -> None:
        """`model` guesses at most so many tokens."""
        self._kinds, self._model = kinds, model
        self.account = Account()
        self._form, self._chances, self._most = form, chances, most
        self._earlier = Rewritten(text)
        self._followed, self._at = NO_DRAFT, 0  # a draft, and how many of its tokens were drawn

    @property
    def uses_model(self) -> bool:
        """True if a model may make the next draft."""
        return self._model is not None and not self.account.resting

    def propose(self, most: int, guesses: int = 0) -> Draft:
        """Return the draft for the next tokens, at most so many, of which a model makes at most so
        many `guesses`.
        """
        if self.account.resting or min(most, self._most) < 1:
            return NO_DRAFT
        draft = self._made(min(most, self._most), guesses)
        if self._at >= len(self._followed.tokens):
            self._followed, self._at = draft, 0
        return draft

    def chances(self, draft: Draft) -> list[float]:
        """How likely each token of a draft is right, where those before it are."""
        return [self._chances.at(draft.source, i) for i in range(len(draft.tokens))]

    def drew(self, token: int) -> None:
        """The token follows."""
        self.account.wrote(1)
        tokens, source = self._followed
        if self._at < len(tokens):
            right = tokens[self._at] == token
            self._chances.learn(source, self._at, right)
            self._at = self._at + 1 if right else len(tokens)

    def _made(self, most: int, guesses: int = 0) -> Draft:
        forced = self._form.forced() if self._form is not None else []
        if forced:
            return Draft(forced[:most], "form")
        tokens, matched = self._earlier.draft() if "ngram" in self._kinds else ([], 0)
        source = f"ngram {_class(matched)}" if tokens else ""
        if self._model is not None and guesses and matched < SURE:
            guessed = self._model(min(most, guesses))
            tokens, source = guessed if guessed.tokens else (tokens, source)
        tokens = tokens[:most]
        if self._form is not None and tokens:
            tokens = tokens[: self._form.fitting(tokens)]
        return Draft(tokens, source) if tokens else NO_DRAFT


def _class(matched: int) -> int:
    """The shortest match that counts as likely as this one; 0 after a change."""
    return max(n for n in (0, 3, 5, 8, 16) if n <= matched)
