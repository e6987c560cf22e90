"""How tokens of a running answer come to be, as many of them as fit a bounded share of its time."""

from collections.abc import Callable, Iterator
from time import perf_counter

from engine.errors import NoMem, NotSupported
from engine.inside.live import LiveWatch
from engine.inside.token.budget import LookBudget
from engine.inside.token.choice import choice
from engine.inside.token.context import context_items
from engine.inside.token.glance import Glance, InsideProbes
from engine.protocol import Generate, Live, Reply, TokenInside
from engine.runner.loading import LoadedModel
from engine.runner.profile import step_record
from engine.runner.sequence import Sequenced
from engine.runner.stepper import Logits, StartedStep
from engine.scheduler.probes import Probes
from engine.scheduler.record import UNRECORDED, Recorder, Recording


class TokenWatch(LiveWatch):
    """A `LiveWatch` that also sends `TokenInside`.

    What is looked at is a step with copies; what it means is computed when the next one is about to
    start, since the token that was drawn is known then.
    """

    def __init__(
        self,
        model: LoadedModel,
        sequence: Sequenced,
        request: Generate,
        live: Callable[[], Live],
        budget: LookBudget | None = None,
    ) -> None:
        """`budget` is that of the model's answers before."""
        super().__init__(request.id, sequence, request.watch, live)
        self._model, self._request = model, request
        self._budget = budget or LookBudget()
        self._budget.begin()
        self._glance: tuple[Glance, Live] | None = None
        self._is_look = False
        self._failed = False
        self._context_of: int | None = None
        self._inside: list[Reply] = []

    def begin(self, token: int, recorder: Recorder) -> Callable[[], Logits]:
        if self._glance is not None:
            begun = perf_counter()
            self._report(*self._glance, token)
            self._glance = None
            self._budget.spend(perf_counter() - begun)
        begun = perf_counter()
        was_look, self._is_look = self._is_look, False
        finish = super().begin(token, recorder)
        by_look = self._is_look or was_look
        if recorder is not UNRECORDED and not by_look:
            return finish

        def logits() -> Logits:
            row = finish()
            self._budget.step(perf_counter() - begun, by_look)
            return row

        return logits

    def shares(self) -> bool:
        return self._glance is None and super().shares()

    def probes(self, live: Live) -> Probes:
        self._is_look = self._is_wanted(live) and self._budget.is_due()
        if not self._is_look:
            return super().probes(live)
        return InsideProbes(tuple(live.probes), tuple(self._model.built.layers))

    def looks(self, live: Live) -> bool:
        return super().looks(live) or self._is_wanted(live)

    def _is_wanted(self, live: Live) -> bool:
        return not self._failed and (live.lens or live.attention)

    def seen(self, step: StartedStep, logits: Logits) -> None:
        if self._is_look:
            position = len(self.sequence.items) - 1
            number = self.sequence.number
            glance = Glance.of(self._model, step, logits, number, position)
            self._glance = glance, self._live()

    def _report(self, glance: Glance, live: Live, token: int) -> None:
        """Send the previous step's values for the token that was drawn from it."""
        shown, items = self._model.tokenizer.shown, self.sequence.items
        history = [item for item in items if isinstance(item, int)]
        drawn = self._request.sampling
        context = None
        if self._context_of != self.sequence.n_shifts:
            context = context_items(self._model.tokenizer, items, ())
        try:
            inside = TokenInside(
                self._request.id,
                self._n,
                context,
                glance.lens(live.top_k, token, shown) if live.lens else None,
                glance.attended(live.rows) if live.attention and glance.queries else None,
                choice(glance.logits, history, drawn, token, shown) if live.choice else None,
            )
        except (NotSupported, NoMem) as error:  # the answer goes on without
            self._failed = True
            inside = TokenInside(self._request.id, self._n, problem=str(error))
        self._context_of = self.sequence.n_shifts
        self._inside.append(inside)

    def measures(self) -> bool:
        return super().measures() or self._live().step

    def measured(self, recording: Recording) -> None:
        super().measured(recording)
        if self._live().step:
            begun = perf_counter()
            step = step_record(recording)
            self._inside.append(TokenInside(self._request.id, self._n - 1, step=step))
            self._budget.spend(perf_counter() - begun)

    def found(self) -> Iterator[Reply]:
        yield from super().found()
        while self._inside:
            yield self._inside.pop(0)

    def rest(self) -> Iterator[Reply]:
        yield from super().rest()
        yield from self._inside

    def close(self) -> None:
        """Copies stay ready for the next answer where somebody goes on looking."""
        if not self.looks(self._live()):
            super().close()
