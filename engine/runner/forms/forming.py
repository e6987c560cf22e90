"""Constraints in the making: in a thread each, so that no other answer waits."""

from collections.abc import Callable
from threading import Event, Thread
from time import monotonic

from engine.errors import CutawayError
from engine.sampling.constraint import BadForm, Constraint, FormWords

LIMIT = 5.0
"""Seconds for reading one form, once the model's vocabulary is ready for forms."""


class Forming:
    """A constraint that a thread makes of the grammar that `grammar` returns."""

    def __init__(self, words: FormWords, grammar: Callable[[], str]) -> None:
        self._words, self._grammar = words, grammar
        self._ended = Event()
        self._made: Constraint | Exception | None = None
        self._began = 0.0
        Thread(target=self._run, daemon=True, name="form").start()

    def wait(self, seconds: float) -> bool:
        """True if `constraint` returns at once by then."""
        return self._ended.wait(seconds) or self._is_late

    def constraint(self) -> Constraint:
        """What was made, waited for. Raises `BadForm`."""
        while not self.wait(0.05):
            pass
        if self._made is None:
            raise BadForm(f"reading it takes more than {LIMIT:g} s; ask with a simpler one")
        if isinstance(self._made, Exception):
            raise self._made
        return self._made

    @property
    def _is_late(self) -> bool:
        return self._began > 0 and monotonic() > self._began + LIMIT

    def _run(self) -> None:
        try:
            grammar = self._grammar()
            self._words.made()
            self._began = monotonic()
            self._made = Constraint(self._words, grammar)
        except CutawayError as error:
            self._made = error
        except Exception as error:  # noqa: BLE001  told to who asked
            self._made = BadForm(f"unexpected {type(error).__name__}: {error}")
        self._ended.set()
