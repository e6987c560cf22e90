"""An engine with one model in it, as commands use it: progress on the terminal, Ctrl+C, restart."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from types import FrameType, TracebackType
from typing import Any, Self, cast

from app.terminal.progress import Bar
from app.terminal.text import note
from app.words import STAGES
from engine.errors import WorkerDied
from engine.protocol import (
    Failed,
    Load,
    Loaded,
    Prepare,
    Prepared,
    Progress,
    R,
    Reply,
    Request,
    SavePrefixes,
    StageName,
)
from engine.settings import EngineOptions
from engine.worker import RemoteError, Worker

KEEPING = 3.0  # seconds after an answer in which the next load may be made quicker
TICK = 0.1  # seconds between looks at Ctrl+C and at the progress bar


class Interrupt:
    """While entered, the first Ctrl+C only sets `interrupted`; the second raises."""

    def __init__(self) -> None:
        self.interrupted = False

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is signal.default_int_handler:  # else somebody chose to ignore it
            signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True


class CommandEngine:
    """A worker process with `path` loaded, from `start` to `close`."""

    def __init__(self, path: Path, options: EngineOptions, embeds: bool = False) -> None:
        self.path, self.options, self._embeds = path, options, embeds
        self._worker: Worker | None = None

    def start(self) -> Loaded:
        """Opens the model in a fresh process and prints the notes on it; the one before ends.

        Raises RemoteError, WorkerDied.
        """
        self.start_empty()
        loaded = self.get(Load(self.worker.new_id(), str(self.path), self.options, self._embeds))
        for text in loaded.notes:
            note(text)
        return loaded

    def start_empty(self) -> Worker:
        """Starts a fresh process without a model; the one before ends."""
        self.close()
        self._worker = Worker()
        return self._worker

    @property
    def worker(self) -> Worker:
        """The process; there is one after `start`."""
        assert self._worker is not None
        return self._worker

    def send(
        self, request: Request[Any], interrupt: Interrupt | None = None, bar: bool = True
    ) -> Iterator[Reply]:
        """Every reply to a request, the final one last; a bar shows progress until the first text.

        Where `interrupt` catches Ctrl+C the request is cancelled, and still ends with a reply.
        Raises RemoteError for a request that fails, WorkerDied.
        """
        latest = Progress(request.id, request.stage, 0, 0)
        interrupted = (lambda: interrupt.interrupted) if interrupt is not None else (lambda: False)
        with Bar() as shown:
            for reply in self._replies(request, interrupted):
                if isinstance(reply, Progress):
                    latest = reply
                elif reply is not None:
                    bar = False
                    shown.clear()
                if bar:
                    shown.update(_label(latest.stage), latest.done, latest.total)
                if reply is not None:
                    yield reply

    def send_together(self, requests: Sequence[Request[Any]]) -> Iterator[Reply]:
        """Every reply to requests that are sent at once. Raises RemoteError, WorkerDied."""
        ends = {request.id: request.ends for request in requests}
        for request in requests:
            self.worker.send(request)
        while ends:
            reply = self.worker.receive()
            if reply is None or reply.id not in ends:
                continue
            if isinstance(reply, Failed):
                raise RemoteError(reply)
            yield reply
            if isinstance(reply, ends[reply.id]):
                del ends[reply.id]

    def new_id(self) -> int:
        """An id no request had yet."""
        return self.worker.new_id()

    def _replies(
        self, request: Request[Any], interrupted: Callable[[], bool]
    ) -> Iterator[Reply | None]:
        """All replies, with None after each TICK of silence. Raises as `send`."""
        return self.worker.run(request, interrupted, TICK)

    def get(self, request: Request[R]) -> R:
        """The reply that ends a request, with a bar until it comes. Raises as `send`."""
        *_, last = self.send(request)
        assert isinstance(last, request.ends)
        return cast(R, last)

    def keep_weights(self) -> str:
        """Have the weights written for the next time, where that takes no more than some seconds;
        Ctrl+C ends it. Return the damage of those that were prepared before, "" if they are whole.
        """
        late = monotonic() + KEEPING
        with Interrupt() as interrupt, suppress(RemoteError, WorkerDied):
            request = Prepare(self.new_id())
            for reply in self._replies(
                request, lambda: interrupt.interrupted or monotonic() > late
            ):
                if isinstance(reply, Prepared):
                    return reply.damage
        return ""

    def save_prefixes(self) -> None:
        """Have what was read written for the next time, where that is wanted."""
        with suppress(RemoteError, WorkerDied):
            self.get(SavePrefixes(self.new_id()))

    def close(self) -> None:
        """Ends the process. Harmless when done twice."""
        if self._worker is not None:
            self._worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()


def _label(stage: StageName) -> str:
    words = STAGES[stage]
    return words[0].lower() + words[1:]
