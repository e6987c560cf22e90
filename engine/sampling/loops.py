"""Finds an answer that repeats itself, by its token ids.

vLLM's repetition detection has the same idea; the numbers are measured on answers of small models.
"""

from collections.abc import Sequence

LOOK_EVERY = 16
"""Tokens between two looks."""
LONGEST_PERIOD = 64
SHORT_PERIOD, SHORT_REPEATS = 2, 32
LONG_REPEATS, LONG_TOKENS = 6, 96


def loop_period(tokens: Sequence[int]) -> int | None:
    """The shortest period in which `tokens` repeat at their end; None where they do not.

    A period of 1 or 2 tokens must stand 32 times in a row; a period of 3 to 64 at least 6 times,
    over at least 96 tokens.
    """
    n = len(tokens)
    for period in range(1, min(LONGEST_PERIOD, n // LONG_REPEATS) + 1):
        if period <= SHORT_PERIOD:
            length = period * SHORT_REPEATS
        else:
            length = max(period * LONG_REPEATS, LONG_TOKENS)
        if length <= n and tokens[n - length : n - period] == tokens[n - length + period : n]:
            return period
    return None


class LoopStop:
    """Collects an answer's tokens, and looks for a loop after every 16th of them."""

    def __init__(self) -> None:
        self._tokens: list[int] = []

    def loops_with(self, token: int) -> bool:
        """Add a token; true if the answer repeats itself."""
        self._tokens.append(token)
        if len(self._tokens) % LOOK_EVERY:
            return False
        return loop_period(self._tokens[-LONGEST_PERIOD * LONG_REPEATS :]) is not None
