"""State that handlers share: the open model, the connection to the client, and the function for
each class of requests.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from threading import Event
from types import MappingProxyType
from typing import Any, TypeVar

from engine.errors import BadFile, BadSetting
from engine.memory.placement import Placement
from engine.memory.trim import trim
from engine.protocol import (
    Failed,
    Generate,
    Live,
    Progress,
    Reply,
    Request,
    ReviseEdits,
    StageName,
    WireMessage,
)
from engine.runner.loading import LoadedModel, load_model
from engine.runner.pictures.album import Album
from engine.runner.placing.reprice import Repricer
from engine.runner.placing.room import StageProgress
from engine.runner.placing.shelf import WeightShelf
from engine.runner.sequence import Sequenced
from engine.sampling.sampler import BadLogits
from engine.settings import EngineOptions
from engine.worker.answering import AnswersAtOnce
from engine.worker.keeping import Keeping
from engine.worker.prefixes import SavingPrefixes

PROGRESS_STEPS = 200


class Service:
    """At most one open model with its conversations.

    `send` sends a reply at once; `cancelled` holds the ids of the requests to stop, `looks` what
    answers report of their inside by now, `revisions` their edits by now. `album` has the
    pictures that were sent, whatever model is open. `repricer` is for requests that are answered
    beside others. While it is `idle`, `keeping` writes the open model's weights for the next time,
    and `saving` what its sequences have read.
    """

    def __init__(
        self,
        send: Callable[[Reply], None],
        cancelled: Collection[int],
        looks: Mapping[int, Live] = MappingProxyType({}),
        revisions: Mapping[int, ReviseEdits] = MappingProxyType({}),
    ) -> None:
        self.send = send
        self._looks, self._revisions = looks, revisions
        self.idle = Event()
        self.album = Album()
        self.repricer = Repricer()
        self._cancelled = cancelled
        self._open: AnswersAtOnce | None = None
        self.keeping: Keeping | None = None
        self.saving: SavingPrefixes | None = None
        self._answered = False  # by the model that is open

    @property
    def is_open(self) -> bool:
        """True if there is a model."""
        return self._open is not None

    def placement(self, path: str, options: EngineOptions) -> Placement | None:
        """Where the open model lies, if it was opened by these; for any thread."""
        now = self._open
        same = now is not None and (now.model.path, now.model.options) == (path, options)
        return now.model.dry.placement if same and now is not None else None

    @property
    def model(self) -> tuple[LoadedModel, Sequenced]:
        """The open model with the conversation that was used last, of those that are idle. Raises
        `BadSetting` where none is open.
        """
        return self.answering.model, self.answering.slots.latest

    @property
    def answering(self) -> AnswersAtOnce:
        """The answers of the open model. Raises `BadSetting` where none is open."""
        if self._open is None:
            raise BadSetting("model", None, "a loaded model; open one first")
        return self._open

    def plans(self) -> Iterator[None]:
        """Make plans for the open model's next answer, as `AnswersAtOnce.plans`."""
        if self._open is not None:
            yield from self._open.plans()

    @property
    def is_answering(self) -> bool:
        """True if any answer is under way."""
        return self._open is not None and not self._open.is_idle

    def take(self, model: LoadedModel) -> None:
        """Have this model open, until it is closed here."""
        if model.viewer is not None:
            model.viewer.album = self.album
        of_requests = (self.stop_of, self.looked_at, self.revised)
        self._open = AnswersAtOnce(model, self._send_of_model, *of_requests)
        self.saving = SavingPrefixes(model.prefixes, self._open.slots, self.idle)
        self._answered = False
        self.keep()

    def mend(self, request: Request[Any]) -> None:
        """Before all that is computed: say where the model's file was written since it was opened.
        Where prepared weights prove damaged, open it again, which packs its file anew. A model's
        first answer does not wait for that check; numbers do. Raises `BadFile` while others are
        answered, and as `load_model`.
        """
        if self.keeping is not None and (changed := self.keeping.rewritten()):
            note = f"{changed} was changed since it was opened: answers may be wrong; open it again"
            self.send(Progress(request.id, "load", 0, 0, note=note))
        if self._open is not None and self.saving is not None:
            self._open.notes += self.saving.notes()
        first, self._answered = isinstance(request, Generate) and not self._answered, True
        damage = "" if first or self.keeping is None else self.keeping.checked()
        if not damage:
            return
        if self.is_answering:
            raise BadFile(
                damage.partition(": ")[0], "prepared weights are damaged; send the request again"
            )
        note = f"{damage}; its weights are read from the model's file again"
        self.send(Progress(request.id, "load", 0, 0, note=note))
        model = self.answering.model
        path, options, scales = model.path, model.options, model.stepper.scales
        self.close_model()
        stop = self.stop_of(request)
        self.take(load_model(path, options, self.progress(request), stop, embeds=True))
        self.answering.model.scale_adapters(scales)

    def _send_of_model(self, reply: Reply) -> None:
        """Send; an answer without numbers names the prepared weights where these are damaged."""
        is_of_weights = isinstance(reply, Failed) and reply.kind == BadLogits.__name__
        if is_of_weights and self.keeping is not None and (damage := self.keeping.checked()):
            message = f"{damage}; send the request again: it reads the model's own file"
            reply = Failed(reply.id, BadFile.__name__, message)
        self.send(reply)

    def keep(self) -> None:
        """Begin to keep the weights of the open model, as they lie now."""
        self.keeping = Keeping(self.answering.model, self.idle)

    def stop_keeping(self) -> None:
        """Before they lie otherwise."""
        if self.keeping is not None:
            self.keeping.stop()
            self.keeping = None

    def stop_saving(self) -> None:
        """Write what sequences hold, for a moment at most, before they are gone."""
        if self.saving is not None:
            self.saving.finish()
            self.saving.stop()
            self.saving = None

    def close_model(self) -> None:
        """Give back all that the open model holds, if there is one."""
        self.repricer.release()
        self.stop_saving()
        self.stop_keeping()
        if self._open is not None:
            self._open.model.close()
            self._open = None
            trim()

    def shelve_model(self) -> WeightShelf:
        """Like `close_model`, but for weights that the next model may take over."""
        self.repricer.release()
        self.stop_saving()
        self.stop_keeping()
        open, self._open = self._open, None
        try:
            return WeightShelf() if open is None else open.model.close_but_weights()
        finally:
            trim()

    def make_way(self) -> None:
        """Give all cells to the conversation that was used last; nobody is answered."""
        if self._open is not None:
            self._open.slots.only(self._open.slots.latest)

    def looked_at(self, request: Generate) -> Callable[[], Live]:
        """Return the live data to send with an answer; may be called from any thread."""
        return lambda: self._looks.get(request.id, request.live)

    def revised(self, request: Generate) -> Callable[[], ReviseEdits | None]:
        """Return the edits that an answer goes on with, None for its own."""
        return lambda: self._revisions.get(request.id)

    def progress(self, request: WireMessage) -> StageProgress:
        """Reports how far the request is, a few hundred times at most."""
        last: tuple[StageName, int] = ("load", -1)

        def report(stage: StageName, done: int, total: int) -> None:
            nonlocal last
            step = (stage, done * PROGRESS_STEPS // max(1, total))
            if step != last:
                last = step
                self.send(Progress(request.id, stage, done, total))

        return report

    def stop_of(self, request: WireMessage) -> Callable[[], bool]:
        """True if the request was cancelled by now; may be called from any thread."""
        return lambda: request.id in self._cancelled


R = TypeVar("R", bound=Reply)
InParts = Generator[None, None, R]
"""Yields between two parts, returns the reply."""
Handler = Callable[[Service, Any], R | InParts[R]]

HANDLERS: dict[type[Request[Any]], Handler[Reply]] = {}


def answers(kind: type[Request[R]]) -> Callable[[Handler[R]], Handler[R]]:
    """Makes a function the handler of a class of requests."""

    def register(handler: Handler[R]) -> Handler[R]:
        HANDLERS[kind] = handler
        return handler

    return register
