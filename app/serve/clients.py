"""The server's clients, for who looks on: a row for each request, and events as they come.

Neither keys nor addresses beyond the machine's name are kept; questions and answers are sent
to listeners alone, and never logged.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from time import monotonic, time

from engine.protocol import Generate, Stats

LOGGED = 500


@dataclass
class ServedRequest:
    """A request for an answer. `client` is its address and program, `path` the interface; times in
    seconds, `at` since 1970. `ended` is a finish reason, `error`, or `gone`; "" while it goes on.
    """

    number: int
    client: str
    path: str
    n_choices: int = 1
    at: float = field(default_factory=time)
    began: float = field(default_factory=monotonic)
    first: float = 0.0
    last: float = 0.0
    n_prompt: int = 0
    n_generated: int = 0
    ended: str = ""
    seconds: float = 0.0
    stats: Stats | None = None

    @property
    def rate(self) -> float:
        """Tokens per second after the first: the engine's, as the response has it, once there is
        one; until then by when they came.
        """
        if self.stats is not None:
            return self.stats.decode_rate
        took = self.last - self.first
        return (self.n_generated - self.n_choices) / took if took > 0 else 0.0


@dataclass(frozen=True)
class RequestBegan:
    """A request has come."""

    row: ServedRequest
    request: Generate


@dataclass(frozen=True)
class RequestText:
    """More of the answer's first choice."""

    row: ServedRequest
    text: str


@dataclass(frozen=True)
class RequestEnded:
    """It is over; `stats` where the first choice came to its end."""

    row: ServedRequest
    stats: Stats | None


ServedEvent = RequestBegan | RequestText | RequestEnded


class Clients:
    """The requests of now and those of before. Listeners are called in the server's thread: they
    only hand over.
    """

    def __init__(self) -> None:
        self._numbers = count(1)
        self._now: dict[int, ServedRequest] = {}
        self._log: deque[ServedRequest] = deque(maxlen=LOGGED)
        self._listeners: list[Callable[[ServedEvent], None]] = []

    def listen(self, listener: Callable[[ServedEvent], None]) -> None:
        """Call `listener` with each event; from any thread."""
        self._listeners.append(listener)

    @property
    def now(self) -> list[ServedRequest]:
        """Return running requests; from any thread."""
        return list(self._now.values())

    @property
    def log(self) -> list[ServedRequest]:
        """Return finished requests, the newest last; from any thread."""
        return list(self._log)

    def began(self, client: str, path: str, request: Generate, n_choices: int) -> ServedRequest:
        """A new row."""
        row = ServedRequest(next(self._numbers), client, path, n_choices)
        self._now[row.number] = row
        self._notify(RequestBegan(row, request))
        return row

    def added_text(self, row: ServedRequest, text: str) -> None:
        """Text of the first choice."""
        self._notify(RequestText(row, text))

    def ended(self, row: ServedRequest, reason: str, stats: Stats | None) -> None:
        """The row is over."""
        row.ended, row.seconds, row.stats = reason, monotonic() - row.began, stats
        self._now.pop(row.number, None)
        self._log.append(row)
        self._notify(RequestEnded(row, stats))

    def _notify(self, event: ServedEvent) -> None:
        for listener in list(self._listeners):
            listener(event)
