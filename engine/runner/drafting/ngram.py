"""Guesses how a text goes on by how it went on before: no model, a look-up of its last tokens."""

from collections.abc import Sequence

SHORTEST, LONGEST = 3, 32
"""Tokens that the end of the text must have in common with an earlier place, and are compared."""
PLACES = 4
"""Earlier places remembered of each three tokens: the last ones."""


class NGrams:
    """The places of all runs of SHORTEST tokens in a `text` that grows: 5 us a token to remember,
    20 us to find the earlier place that has most in common with the end.
    """

    def __init__(self, text: Sequence[int]) -> None:
        self._text = text
        self._places: dict[tuple[int, ...], list[int]] = {}
        self._n = SHORTEST  # the first place that is not remembered

    def find(self) -> tuple[int, int]:
        """Return the place behind the longest earlier match of the text's end, and how many tokens
        matched: (0, 0) without one. Of equal matches the latest counts.
        """
        self._remember()
        text = self._text
        longest, place = 0, 0
        for at in reversed(self._places.get(tuple(text[-SHORTEST:]), ())):
            n = self._matched(at)
            if n > longest:
                longest, place = n, at
        return place, longest

    def following(self, place: int, n: int) -> list[int]:
        """Return the `n` tokens from an earlier place on; a text that repeats itself goes on as its
        last repetition.
        """
        found = list(self._text[place : place + n])
        period = len(self._text) - place
        while len(found) < n:
            found.append(found[len(found) - period])
        return found

    def _matched(self, at: int) -> int:
        """How many tokens before `at` are those at the text's end."""
        text, end = self._text, len(self._text)
        most = min(LONGEST, at)
        n = SHORTEST
        while n < most and text[at - n - 1] == text[end - n - 1]:
            n += 1
        return n

    def _remember(self) -> None:
        """Every place but the end itself, behind which nothing follows yet."""
        text = self._text
        for at in range(self._n, len(text)):
            places = self._places.setdefault(tuple(text[at - SHORTEST : at]), [])
            places.append(at)
            if len(places) > PLACES:
                del places[0]
        self._n = max(self._n, len(text))
