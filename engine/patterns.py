"""Regular expressions that a person wrote, of which none may search for ever."""

from functools import lru_cache

import regex

from engine.errors import BadSetting

LONGEST_SEARCH = 0.2  # seconds for one name


class Pattern:
    """A regular expression given as `setting`.

    All of it raises `BadSetting`: where the text is no expression, or searches too long.
    """

    def __init__(self, setting: str, text: str) -> None:
        self._setting, self._text = setting, text
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
        try:
            return search(name, timeout=LONGEST_SEARCH) is not None
        except TimeoutError:
            expected = f"a simpler one: on {name} it searched for more than {LONGEST_SEARCH:g} s"
            raise BadSetting(self._setting, self._text, expected) from None


@lru_cache(maxsize=256)
def placing(text: str) -> Pattern:
    """A pattern of `--place`, compiled once. Raises `BadSetting`."""
    return Pattern("--place", text)
