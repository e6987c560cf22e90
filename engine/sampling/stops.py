"""Stop strings: never shown, also when they are split over tokens."""

from collections.abc import Sequence


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
