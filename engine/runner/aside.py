"""Work on long texts in threads of their own, so that no answer waits for it."""

from collections.abc import Callable
from threading import Event, Thread
from time import sleep
from typing import Generic, TypeVar

from engine.errors import BadSetting, Cancelled
from engine.tokenizer import Tokenizer
from engine.tokenizer.words import Pause
from engine.units import MIB

T = TypeVar("T")

LONG = 1 << 14
"""Characters from which on a text is worth a thread: tokenising fewer takes some milliseconds."""
MOST_TEXT = 4 * MIB
"""Characters of a text that are tokenised for any model, some 16 s of work; more for a model whose
context may hold more.
"""
MOST_A_TOKEN = 16
_RESTS = 0.001  # seconds in which other threads may run


class Aside(Generic[T]):
    """Work that a thread does. It is given a function that it calls again and again: there other
    threads have their turn, and work that is `cancelled` ends.
    """

    def __init__(self, work: Callable[[Pause], T], cancelled: Callable[[], bool]) -> None:
        self._work, self._cancelled = work, cancelled
        self._ended = Event()
        self._result: T
        self._error: BaseException | None = None
        Thread(target=self._run, daemon=True, name="long text").start()

    def wait(self, seconds: float) -> bool:
        """True if it has ended by then."""
        return self._ended.wait(seconds)

    def result(self) -> T:
        """The result of work that has ended. Raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._work(resting(self._cancelled))
        except BaseException as error:  # noqa: BLE001  raised where the result is taken
            self._error = error
        self._ended.set()


def resting(cancelled: Callable[[], bool]) -> Pause:
    """A pause in which other threads run. It raises `Cancelled` once nobody waits any more."""

    def pause() -> None:
        if cancelled():
            raise Cancelled("reading the text")
        sleep(_RESTS)

    return pause


def check_length(name: str, text: str, n_ctx: int) -> None:
    """Raise `BadSetting` for a text that is longer than any context needs."""
    most = max(MOST_TEXT, MOST_A_TOKEN * n_ctx)
    if len(text) > most:
        raise BadSetting(name, f"a text of {len(text):,} characters", f"at most {most:,}")


def least_tokens(tokenizer: Tokenizer, text: str, n_ctx: int) -> int:
    """Tokens that a text has at least, where that may be more than the context; else 0."""
    return tokenizer.least(text) if len(text) >= n_ctx else 0
