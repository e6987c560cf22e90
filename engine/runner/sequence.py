"""One sequence of a model: which tokens its caches hold, reuse of a common prefix, shifting."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from engine.errors import BadSetting, Cancelled, CutawayError
from engine.runner.stepper import MAX_BATCH, Logits, Stepper
from engine.scheduler.record import UNRECORDED, Recorder


@dataclass
class Sequenced:
    """`tokens` are exactly those that the caches hold, in order of their positions."""

    stepper: Stepper
    tokens: list[int] = field(default_factory=list)
    n_shifts: int = 0

    @property
    def n_ctx(self) -> int:
        return self.stepper.built.n_ctx

    def reuse(self, prompt: Sequence[int]) -> int:
        """Keep the cached prefix that the prompt shares, forget the rest. Returns its length.

        At least one token of the prompt is left to compute, for its logits. These equal a fresh
        context's but for their last bits (other kernels compute a short rest), unless the context
        was shifted: then what is kept has seen tokens that are gone.
        """
        n = 0
        for held, wanted in zip(self.tokens, prompt[:-1], strict=False):
            if held != wanted:
                break
            n += 1
        if n and not self.stepper.built.caches.can_resume(0, n):
            n = 0
        self.tokens = []  # until the caches are known to hold them
        self.stepper.forget(n)
        self.tokens = list(prompt[:n])
        return n

    def prefill(
        self, tokens: Sequence[int], cancelled: Callable[[], bool]
    ) -> Generator[int, None, Logits]:
        """Compute the tokens in batches, yielding how many are done; returns logits [V] after the
        last. Raises `Cancelled`.
        """
        done = 0
        while True:
            if cancelled():
                raise Cancelled("reading the prompt")
            part = tokens[done : done + MAX_BATCH]
            logits = self.stepper.step(part, len(self.tokens), [len(part) - 1])
            self.tokens += part
            done += len(part)
            yield done
            if done == len(tokens):
                return _row(logits)

    def append(self, token: int) -> Logits:
        """Compute one token; logits [V] after it."""
        return self.start(token)()

    def start(self, token: int, recorder: Recorder = UNRECORDED) -> Callable[[], Logits]:
        """Start computing one token. Returns a function that waits for the logits and records the
        token; call it before anything else.
        """
        finish = self.stepper.start([token], len(self.tokens), [0], recorder=recorder)

        def logits() -> Logits:
            row = _row(finish())
            self.tokens.append(token)
            return row

        return logits

    def shift(self, keep: int, cancelled: Callable[[], bool]) -> None:
        """Make room for half a context: forget the oldest of what follows the first `keep` tokens.

        Does nothing where there is such room. Where keys cannot be turned, all that stays is
        computed again. Raises `BadSetting` where nothing may go, `Cancelled`.
        """
        if keep >= self.n_ctx:
            raise BadSetting("keep", keep, f"fewer tokens than the context of {self.n_ctx}")
        room = max((self.n_ctx - keep) // 2, 1)
        discard = room - (self.n_ctx - len(self.tokens))
        if discard <= 0:
            return
        kept = self.tokens[:keep] + self.tokens[keep + discard :]
        self.tokens = []  # until the caches are known to hold them
        self.n_shifts += 1
        try:
            self.stepper.forget(keep, keep + discard)
        except (CutawayError, MemoryError):
            self.stepper.forget(0)
            if kept:
                for _ in self.prefill(kept, cancelled):
                    pass
        else:
            self.tokens = kept


def _row(logits: Logits) -> Logits:
    row: Logits = logits[0]
    return row
