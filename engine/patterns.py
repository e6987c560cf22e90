"""Regular expressions that a person wrote, of which none may search for ever."""

from functools import lru_cache
from time import thread_time

import regex

from engine.errors import BadSetting

LONGEST_SEARCH = 0.2  # seconds for one name, and for what many names take beyond EACH
EACH = 0.001  # seconds: an expression that takes longer for name after name is refused, too


class Pattern:
    """A regular expression given as `setting`.

    All of it raises `BadSetting`: where the text is no expression, or searches too long.
    """

    def __init__(self, setting: str, text: str) -> None:
        self._setting, self._text = setting, text
        self._left = LONGEST_SEARCH
        try:
            self._compiled = regex.compile(text)
        except (regex.error, OverflowError, RecursionError, MemoryError) as error:
            raise BadSetting(setting, text, f"a regular expression ({error})") from None

    def matches(self, name: str) -> bool:
        """True if it matches the whole name."""
        return self._in_time(name, whole=True)

    def is_in(self, name: str) -> bool:
        """True if it matches somewhere in the name."""
        return self._in_time(name, whole=False)

    def _in_time(self, name: str, whole: bool) -> bool:
        search = self._compiled.fullmatch if whole else self._compiled.search
        before = thread_time()
        try:
            found = search(name, timeout=LONGEST_SEARCH)
        except TimeoutError:
            raise self._too_slow(f"on {name}") from None
        self._left = min(LONGEST_SEARCH, self._left + EACH - (thread_time() - before))
        if self._left < 0:
            raise self._too_slow("on some names")
        return found is not None

    def _too_slow(self, where: str) -> BadSetting:
        expected = f"a simpler one: {where} it searched for more than {LONGEST_SEARCH:g} s"
        return BadSetting(self._setting, self._text, expected)


@lru_cache(maxsize=256)
def placing(text: str) -> Pattern:
    """A pattern of `--place`, compiled once. Raises `BadSetting`."""
    return Pattern("--place", text)
