"""Drafts of a text that repeats an earlier one with changes, such as a file that is edited."""

from collections.abc import Sequence

from engine.runner.drafting.ngram import NGrams

SURE = 8
"""A match of so many tokens shows that an earlier text is repeated; it goes before a draft model.
"""
REACH = 8
"""Tokens of the earlier text, from a change on, in which the next token is searched for."""
MOST_CHANGED = 8
"""Changed tokens in a row after which the text no longer counts as repeated."""
AHEAD = 16
"""Tokens of a draft after a change."""


class Rewritten:
    """Drafts from the part of a `text` that its end repeats with changes, while it grows.

    After a changed token nothing matches until SHORTEST tokens are the same again. Until then the
    draft continues after the token that was replaced. If the earlier part has the new token soon
    after the change, it continues after that one: tokens were removed, or inserted before it.
    """

    def __init__(self, text: Sequence[int]) -> None:
        self._text, self._ngrams = text, NGrams(text)
        self._place: int | None = None  # of the next token, in the earlier part
        self._read = 0  # tokens of the text when it was there
        self._changed_at, self._n_changed, self._n_right = 0, 0, 0

    def draft(self) -> tuple[list[int], int]:
        """Return the tokens that may follow, and how many before them match: 0 after a change."""
        place, matched = self._ngrams.find()
        self._follow()
        if matched >= SURE:
            self._place, self._n_changed, self._n_right = place, 0, matched
        if matched:
            least = AHEAD if place == self._place else 0
            return self._ngrams.following(place, max(2 * matched, least)), matched
        if self._place is None:
            return [], 0
        return self._ngrams.following(self._place, AHEAD), 0

    def _follow(self) -> None:
        """Move `_place` by the tokens that were written since the last draft."""
        text = self._text
        for at in range(self._read, len(text)):
            if self._place is None:
                break
            if text[self._place] == text[at]:
                self._place += 1
                self._n_right += 1
            else:
                self._place = self._after_change(self._place, text[at])
            if self._place is not None and self._place > at:
                self._place = None  # the end repeats itself alone
        self._read = len(text)

    def _after_change(self, place: int, token: int) -> int | None:
        if self._n_right >= SURE:
            self._changed_at, self._n_changed = place, 0
        self._n_right = 0
        self._n_changed += 1
        if self._n_changed > MOST_CHANGED:
            return None
        near = self._text[self._changed_at : self._changed_at + REACH]
        return self._changed_at + near.index(token) + 1 if token in near else place + 1
