"""Guesses how a text goes on that repeats an earlier one with changes: a file that is edited."""

from collections.abc import Sequence

from engine.runner.drafting.ngram import NGrams

SURE = 8
"""Tokens of a match from which on it is rather believed than a draft model, or than a change."""
REACH = 8
"""Tokens of the earlier text among which one is sought that follows a change."""
MOST_CHANGED = 8
"""Changed tokens after which the text is another one."""
AHEAD = 16
"""Tokens of a draft behind a change."""


class Rewritten:
    """Where in a `text` that grows its own end is written for the first time.

    Behind a changed token the last tokens match no longer. Until they match again the text is
    taken to go on behind the token that was replaced; where a token follows that the earlier text
    has soon after the change, behind that one: something was left out there, or put in before it.
    """

    def __init__(self, text: Sequence[int]) -> None:
        self._text, self._ngrams = text, NGrams(text)
        self._follows = self._ngrams.following
        self._place: int | None = None  # of the next token, in the earlier text
        self._read = 0  # tokens of the text for which that is so
        self._changed_at, self._n_changed, self._n_right = 0, 0, 0

    def draft(self) -> tuple[list[int], int]:
        """Return the tokens that may follow, and how many before them match: 0 behind a change."""
        place, matched = self._ngrams.find()
        self._follow()
        if matched >= SURE:
            self._place, self._n_changed, self._n_right = place, 0, matched
        if not matched:
            return ([], 0) if self._place is None else (self._follows(self._place, AHEAD), 0)
        n = 2 * matched if place != self._place else max(2 * matched, AHEAD)
        return self._follows(place, n), matched

    def _follow(self) -> None:
        """Move on by the tokens that were written since the last draft."""
        text = self._text
        for at in range(self._read, len(text)):
            if self._place is None:
                break
            if text[self._place] == text[at]:
                self._place += 1
                self._n_right += 1
            else:
                self._place = self._behind_change(self._place, text[at])
            if self._place is not None and self._place > at:
                self._place = None  # it is the end itself
        self._read = len(text)

    def _behind_change(self, place: int, token: int) -> int | None:
        if self._n_right >= SURE:
            self._changed_at, self._n_changed = place, 0
        self._n_right = 0
        self._n_changed += 1
        if self._n_changed > MOST_CHANGED:
            return None
        near = self._text[self._changed_at : self._changed_at + REACH]
        return self._changed_at + near.index(token) + 1 if token in near else place + 1
