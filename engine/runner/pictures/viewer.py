"""How an open model sees: plans of pictures, and the rows that its tower makes of them."""

from collections.abc import Callable, Generator, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np

from engine.device.backend import Backend
from engine.errors import Cancelled, ContextFull, NotSupported
from engine.images.plan import ImagePlan, Limits, Size
from engine.images.resize import Resizer
from engine.kvcache.encoded import Entering
from engine.models.vision.build import BuiltTower
from engine.runner.batch import MAX_BATCH
from engine.runner.pictures.album import Album
from engine.runner.pictures.items import Item, Shown, runs
from engine.runner.pictures.marking import Marking
from engine.runner.pictures.store import Floats, Kept, RowStore
from engine.runner.stepper import Stepper
from engine.scheduler.plan import Plan
from engine.scheduler.record import Values


class Encoding(NamedTuple):
    """A tower at work: so many views of a picture are done, kernels for the next are built, and
    so many of the tower's blocks are done for it. `seconds` is the work since the last report.
    """

    picture: Shown
    done: int
    total: int
    block: int
    blocks: int
    seconds: float = 0.0


class _Pass(NamedTuple):
    """A pass of the tower that is ready to run; `rows` of what it makes are the picture's."""

    plan: Plan
    inputs: Values
    rows: int
    view: int
    resize_s: float


class Viewer:
    """The tower of an open model with what it needs: pictures, plans, a store of rows.

    `limits` hold for every picture. `per_patch` are the seconds that a patch took last, kernels
    being built already; None before any was computed.
    """

    def __init__(
        self,
        built: BuiltTower,
        stepper: Stepper,
        host: Backend,
        marking: Marking,
        limits: Limits,
        kept_bytes: int,
    ) -> None:
        self.built, self.tower, self.marking = built, built.tower, marking
        self.album = Album()
        self.per_patch: float | None = None
        self._stepper, self._limits = stepper, limits
        width = built.tower.host.n_embd * (1 + built.tower.deepstack)
        self.store = RowStore(host, width, kept_bytes)

    def plan(self, size: Size, limits: Limits) -> ImagePlan:
        """Plan a picture of that size, within the context's limits."""
        return self.tower.plan(size, self.within(limits))

    def within(self, limits: Limits) -> Limits:
        """The tighter of a picture's own limits and the model's."""
        rows = [n for n in (limits.rows, self._limits.rows) if n is not None]
        return Limits(min(rows, default=None), limits.one_view or self._limits.one_view)

    def fits(self, picture: Shown, n_ctx: int) -> None:
        """Raise `ContextFull` for a picture that leaves no token any room, `NotSupported` for one
        whose rows see each other and are more than a step takes.
        """
        if not picture.plan.causal and picture.n_rows > MAX_BATCH:
            rows = f"more than {MAX_BATCH} rows of pictures in one batch; a picture of"
            raise NotSupported(f"{rows} {picture.size} has {picture.n_rows},")
        if picture.n_rows > n_ctx - 1:
            cap = f"--image-tokens {n_ctx // 2} or a context above {picture.n_rows}"
            detail = f"they are one picture of {picture.size}; {cap} would do"
            raise ContextFull(picture.n_rows, n_ctx, detail)

    def patches(self, plan: ImagePlan) -> int:
        """Return the number of patches that the vision encoder computes for all views."""
        side = self.tower.params.patch
        return sum((view.size.w // side) * (view.size.h // side) for view in plan.views)

    def encode(
        self, picture: Shown, cancelled: Callable[[], bool]
    ) -> Generator[Encoding, None, Kept]:
        """The rows of all views, those that are not there computed now; finished views stay.

        Raises `Cancelled`, between two blocks, `UnknownPictures`, `NoMem`.
        """
        work = self._encode(picture, cancelled)
        while True:
            begun = perf_counter()
            try:
                at = next(work)
            except StopIteration as end:
                kept: Kept = end.value
                return kept
            yield at._replace(seconds=perf_counter() - begun)

    def _encode(
        self, picture: Shown, cancelled: Callable[[], bool]
    ) -> Generator[Encoding, None, Kept]:
        kept = self.store.take(picture)
        plan = picture.plan
        passes = self.tower.passes(plan)
        missing = [i for i in passes if i not in kept.done]
        if not missing:
            return kept
        total = len(passes)
        resizer: Resizer | None = None
        for done, view in enumerate(missing, total - len(missing)):
            _heed(cancelled)
            resizer = resizer or Resizer(self.album.picture(picture.digest), self.tower.rule)
            ready = self.prepare(resizer, plan, view)
            at = Encoding(picture, done, total, 0, len(ready.plan.outline.graph.pauses))
            yield at
            _heed(cancelled)  # building may have taken long
            running = perf_counter()
            rows = yield from self.run(ready, at, cancelled)
            first = picture.starts[view]
            kept.rows[first : first + len(rows)] = rows
            kept.done |= {view} if total == len(plan.views) else set(range(len(plan.views)))
            taken = ready.resize_s + perf_counter() - running
            self.per_patch = taken * total / max(1, self.patches(plan))
        yield at._replace(done=total)
        self.album.forget_pixels()
        return kept

    def rows(
        self, items: Sequence[Item], cancelled: Callable[[], bool]
    ) -> Generator[Encoding, None, Floats | None]:
        """f32 [T, width] of items, zeros for tokens; None where all are tokens. Raises as
        `encode`.
        """
        found: Floats | None = None
        for run in runs(items):
            if run.picture.plan.cross:
                continue
            kept = yield from self.encode(run.picture, cancelled)
            if found is None:
                found = np.zeros((len(items), self.store.width), np.float32)
            for i in range(run.begin, run.end):
                source = run.picture.sources[run.first + i - run.begin]
                if isinstance(source, int):
                    found[i] = kept.rows[source]
                else:
                    learned = self.built.learned[source]
                    found[i, : len(learned)] = learned
        return found

    def entering(
        self, items: Sequence[Item], position: int, cancelled: Callable[[], bool]
    ) -> Generator[Encoding, None, tuple[Entering, ...]]:
        """The pictures among items from `position` on that layers look at. Raises as `encode`."""
        found = []
        for run in runs(items):
            if run.picture.plan.cross:
                kept = yield from self.encode(run.picture, cancelled)
                found.append(Entering(kept.rows.copy(), position + run.begin))
        return tuple(found)

    def close(self) -> None:
        """Free the rows."""
        self.store.clear()

    def prepare(self, resizer: Resizer, plan: ImagePlan, view: int) -> _Pass:
        """A view's pixels, and the plan of its pass: building its kernels may take longest."""
        begun = perf_counter()
        step = self.tower.step(resizer.pixels, plan, view)
        resize_s = perf_counter() - begun
        n = self.tower.bucket(step.n)
        compiled, p = self._stepper.planner.plan_with(("tower", n), lambda: self.built.build(n))
        return _Pass(compiled, p.fill(step), step.rows, view, resize_s)

    def run(
        self, ready: _Pass, at: Encoding, cancelled: Callable[[], bool]
    ) -> Generator[Encoding, None, Floats]:
        """The rows of a view, with a report of each block."""
        parts = ready.plan.run_in_parts(ready.inputs)
        while True:
            try:
                block = next(parts)
            except StopIteration as end:
                (rows,) = end.value
                break
            yield at._replace(block=block)
            _heed(cancelled)
        made: Floats = rows.reshape(-1, self.store.width)[: ready.rows].astype(np.float32)
        return made


def _heed(cancelled: Callable[[], bool]) -> None:
    if cancelled():
        raise Cancelled("encoding the picture")
