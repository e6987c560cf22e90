"""A client without a process: it notes what is asked, and says what a test lets it say."""

from math import log

from app.client import EngineClient
from engine import protocol
from engine.protocol import Alternative, Finished, Loaded, Piece, Stats, TokenInfo


class ScriptedClient(EngineClient):
    """Everything it says goes the way of the worker's messages."""

    asked: list[protocol.Request]

    def _send(self, request: protocol.Request) -> int:
        self.__dict__.setdefault("asked", []).append(request)
        self._open[request.id] = request
        return request.id

    def cancel(self, request_id: int) -> None:
        self.__dict__.setdefault("asked", []).append(protocol.Cancel(request_id))

    def say(self, *replies: protocol.Reply) -> None:
        """What the worker would have sent, in one frame."""
        self._deliver([(None, reply) for reply in replies])

    @property
    def last(self) -> protocol.Request:
        return self.asked[-1]

    def load_done(self, name: str = "SmolLM2 135M Instruct", n_ctx: int = 2048) -> None:
        """The model that was asked for is open."""
        request = next(r for r in reversed(self.asked) if isinstance(r, protocol.Load))
        self.say(
            Loaded(
                request.id, request.path, name, "llama", "intel:0", "Intel CPU", n_ctx, n_ctx,
                49152, "file",
            )
        )  # fmt: skip

    def write(self, *texts: str, chance: float = 0.8) -> None:
        """Tokens of the answer asked for last, one a text, in one frame."""
        self.say(*(Piece(self.last.id, text, [token(text, chance)]) for text in texts))

    def end(self, reason: str = "stop", n: int = 40, seed: int = 7) -> None:
        """The answer is over."""
        stats = Stats(120, 30, n, 0.001, 0.4, 0.213, n / 143, seed, 120 + n)
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
