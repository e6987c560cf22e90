"""Stop strings: never shown, also when they are split over tokens."""

import re
from collections.abc import Callable, Sequence
from time import perf_counter


class StopFilter:
    """Holds text back while it may still become a stop string.

    The match that starts earliest in the text wins, whatever the order of the list; of two that
    start at the same place the one listed first.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [s for s in stops if s]
        self._held = ""
        self.matched: str | None = None

    def push(self, text: str) -> str:
        """Returns text that may be shown now; nothing after a match (`matched` is set)."""
        if self.matched is not None:
            return ""
        self._held += text
        found = [(at, s) for s in self._stops if (at := self._held.find(s)) >= 0]
        if found:
            at, self.matched = min(found, key=lambda f: f[0])
            shown, self._held = self._held[:at], ""
            return shown
        keep = max((_overlap(self._held, s) for s in self._stops), default=0)
        cut = len(self._held) - keep
        shown, self._held = self._held[:cut], self._held[cut:]
        return shown

    def flush(self) -> str:
        """Returns the text held back, once no more can come."""
        shown, self._held = self._held, ""
        return "" if self.matched is not None else shown


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`, shorter than all of it."""
    for n in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:n]):
            return n
    return 0


_BREAK = re.compile(r"[\r\n][ \t\r\n]*")


class LineStop:
    """Ends an answer of lines: before one with less than `indent` blanks in front, and with the
    first that ends `seconds` after the answer began; 0 is no limit. `ended` is set once it has.
    """

    def __init__(
        self, indent: int, seconds: float, clock: Callable[[], float] = perf_counter
    ) -> None:
        self._indent, self._seconds, self._clock = indent, seconds, clock
        self._held = ""  # a line break and what is blank after it
        self._began: float | None = None
        self.ended = False

    def push(self, text: str) -> str:
        """Returns text that may be shown now; nothing once it has `ended`."""
        if self.ended or not (self._indent or self._seconds):
            return "" if self.ended else text
        now = self._clock()
        self._began = now if self._began is None else self._began
        late = 0 < self._seconds < now - self._began
        text, self._held = self._held + text, ""
        for found in _BREAK.finditer(text):
            blanks = len(found[0]) - 1 - max(found[0].rfind("\n"), found[0].rfind("\r"))
            is_last = found.end() == len(text)
            if late or (not is_last and blanks < self._indent):
                self.ended = True
                return text[: found.start()]
            if is_last:
                self._held = found[0]
                return text[: found.start()]
        return text

    def flush(self) -> str:
        """Returns the text held back, once no more can come."""
        shown, self._held = self._held, ""
        return "" if self.ended else shown


LOOK_EVERY = 16
"""Tokens between two looks."""
SHORT_PERIOD, SHORT_REPEATS = 2, 32
LONG_PERIOD, LONG_REPEATS, LONG_TOKENS = 64, 6, 96
LONGEST_PERIOD, LONGEST_REPEATS = 256, 4  # base models repeat whole paragraphs with their lists


def loop_period(tokens: Sequence[int]) -> int | None:
    """The shortest period in which `tokens` repeat at their end; None where they do not.

    A period of 1 or 2 tokens must stand 32 times in a row; a period of 3 to 64 at least 6 times,
    over at least 96 tokens; a period of 65 to 256 at least 4 times.
    """
    n = len(tokens)
    for period in range(1, min(LONGEST_PERIOD, n // LONGEST_REPEATS) + 1):
        if tokens[n - 1] != tokens[n - 1 - period]:
            continue
        if period <= SHORT_PERIOD:
            length = period * SHORT_REPEATS
        elif period <= LONG_PERIOD:
            length = max(period * LONG_REPEATS, LONG_TOKENS)
        else:
            length = period * LONGEST_REPEATS
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
        return loop_period(self._tokens[-LONGEST_PERIOD * LONGEST_REPEATS :]) is not None
