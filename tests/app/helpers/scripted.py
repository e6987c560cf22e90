"""An engine without a process: it notes what is asked, and says what a test lets it say."""

from collections.abc import Callable, Sequence
from math import log
from typing import Any

import msgspec

from app.engine import Abilities, Died, Engine, Event, Restarted
from app.local_files import LocalFiles
from app.weights import LocalWeights
from engine.errors import Cancelled, CutawayError
from engine.protocol import (
    Alternative,
    Cancel,
    Failed,
    Finished,
    ForeseenMemory,
    Generate,
    Load,
    Loaded,
    Look,
    LoraAdapter,
    Memory,
    Piece,
    Predict,
    PredictedMemory,
    Request,
    ReviseEdits,
    Stats,
    TokenInfo,
    WireMessage,
)


class ScriptedEngine(Engine):
    """Everything it says goes the way of a real engine's replies; `deliver` ends the frame."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[WireMessage] = []
        self.pictures: dict[str, Any] = {}  # what was brought, by digest
        self.keeps_pictures = True
        self.can = Abilities()
        self.files = LocalFiles()
        self.deliver: Callable[[], None] = lambda: None

    @property
    def abilities(self) -> Abilities:
        return self.can

    def send(self, request: Request[Any]) -> None:
        if type(request) in self.files.answers:  # real files, of which a test has real ones
            self.notify(self.files.answer(request))
        else:
            self.asked.append(request)

    def weights(self, path: str) -> LocalWeights:
        return LocalWeights(path)

    def stop(self, request: Request[Any]) -> None:
        if type(request) not in self.files.answers:
            self.asked.append(Cancel(request.id))

    def order(self, order: Look | ReviseEdits) -> None:
        self.asked.append(order)

    def restart(self) -> None:
        self._begin_anew(Restarted(), Cancelled("the request"))

    def close(self) -> None:
        pass

    def say(self, *events: Event) -> None:
        """What an engine would have told, in one frame."""
        for event in events:
            self.notify(event)
        self.deliver()

    def die(self, error: CutawayError) -> None:
        """End as a process does that was killed."""
        self._begin_anew(Died(error), error)

    def _begin_anew(self, event: Event, error: CutawayError) -> None:
        lost = [r.id for r in self.asked if isinstance(r, Request)]
        self.say(event, *(Failed(number, error.kind, str(error)) for number in lost))

    def waits_for(self, number: int) -> bool:
        """Whether a request has not ended."""
        return number in self.requests

    @property
    def last(self) -> WireMessage:
        return self.asked[-1]

    def last_of(self, kind: type[WireMessage]) -> WireMessage:
        """The latest request of a class."""
        return next(r for r in reversed(self.asked) if isinstance(r, kind))

    def answer(self, kind: type[Request[Any]], *fields: Any) -> None:
        """The reply that ends the latest request of a class."""
        self.say(kind.ends(self.last_of(kind).id, *fields))

    def predict(self, memory: Memory) -> None:
        """What was asked for last would take this."""
        assert isinstance(memory, ForeseenMemory)
        fields = msgspec.structs.asdict(memory) | {"id": self.last_of(Predict).id}
        self.say(PredictedMemory(**fields))

    def load_done(
        self,
        name: str = "SmolLM2 135M Instruct",
        n_ctx: int = 2048,
        trained: int | None = None,
        adapters: Sequence[LoraAdapter] = (),
    ) -> None:
        """The model that was asked for is open; it was `trained` with as many tokens, or more."""
        request = self.last_of(Load)
        assert isinstance(request, Load)
        self.say(
            Loaded(
                request.id, request.path, name, "llama", "intel:0", "Intel CPU", n_ctx,
                trained or n_ctx, 49152, "file", adapters=[*adapters],
            )
        )  # fmt: skip

    def write(self, *texts: str, chance: float = 0.8) -> None:
        """Tokens of the answer asked for last, one a text, in one frame."""
        self.say(*(Piece(self.last.id, text, [token(text, chance)]) for text in texts))

    def end(self, reason: str = "stop", n: int = 40, seed: int = 7) -> None:
        """The answer is over."""
        stats = Stats(120, 30, n, 0.001, 0.4, 0.213, n / 143, seed, 120 + n)
        asked = next((r for r in reversed(self.asked) if isinstance(r, Generate)), Generate(0))
        stats = msgspec.structs.replace(stats, changes=asked.changes, edits=asked.edits)
        self.say(Finished(self.last.id, reason, stats))


def token(text: str, chance: float) -> TokenInfo:
    """A token with two alternatives beside it."""
    number = sum(map(ord, text)) % 40000
    rest = 1 - chance
    top = [
        Alternative(number, text, log(chance)),
        Alternative(number + 1, f"{text}!", log(max(1e-6, rest * 0.7))),
        Alternative(number + 2, " other", log(max(1e-6, rest * 0.2))),
    ]
    return TokenInfo(number, log(chance), text, top)
