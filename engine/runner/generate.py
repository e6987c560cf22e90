"""One request from text to text: prompt, prefill, decode, stop."""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from engine.answers import MARKS
from engine.errors import BadSetting, Cancelled, GivesNoText
from engine.models.base import Output
from engine.protocol import (
    Alternative,
    Finished,
    Generate,
    PictureStats,
    Piece,
    Progress,
    Reply,
    Stats,
    TokenInfo,
)
from engine.runner.loading import LoadedModel
from engine.runner.pictures.compose import n_tokens
from engine.runner.pictures.items import Item, Shown, extents, runs
from engine.runner.pictures.viewer import Encoding
from engine.runner.prompt import Prompt, answer_opening, beyond_prefix, make_prompt
from engine.runner.sequence import Sequenced
from engine.runner.stepper import Logits
from engine.runner.watch import Watch
from engine.sampling.sampler import Sampler, log_softmax, top_k
from engine.sampling.stops import StopFilter

MAX_LOGPROBS = 256
CONTEXTS_AT_MOST = 10


def generate(
    model: LoadedModel,
    sequence: Sequenced,
    request: Generate,
    cancelled: Callable[[], bool],
    watch: Watch | None = None,
) -> Iterator[Reply]:
    """Yields the request's events, `Finished` last; `cancelled` is called at each step. `watch`
    computes the answer's tokens.

    Raises `GivesNoText`, `BadSetting`, `TemplateError`, `ContextFull`, `CannotSee`,
    `UnknownPictures`, and what a device may raise.
    """
    if model.built.output is not Output.LOGITS:
        raise GivesNoText(model.built.arch)
    if not 0 <= request.logprobs <= MAX_LOGPROBS:
        raise BadSetting("logprobs", request.logprobs, f"a number from 0 to {MAX_LOGPROBS}")
    if request.max_tokens is not None and request.max_tokens < 0:
        raise BadSetting("max_tokens", request.max_tokens, "0 or more")
    sampler = Sampler(request.sampling)
    clock = _Clock()
    viewer = sequence.viewer
    prompt = make_prompt(model.tokenizer, model.template, request, sequence.n_ctx, viewer)
    clock.tokenized = perf_counter()
    watch = watch or Watch(sequence, request.watch)
    answer = _Answer(model, sequence, request, sampler, clock, prompt, watch, cancelled)
    return answer.run()


@dataclass
class _Clock:
    """Moments of one answer, in seconds."""

    started: float = field(default_factory=perf_counter)
    tokenized: float = 0.0
    prefilled: float = 0.0
    first: float = 0.0


@dataclass
class _Answer:
    model: LoadedModel
    sequence: Sequenced
    request: Generate
    sampler: Sampler
    clock: _Clock
    prompt: Prompt
    watch: Watch
    cancelled: Callable[[], bool]
    logits: Logits = field(default_factory=lambda: np.empty(0, np.float32))
    n_cached: int = 0
    n_generated: int = 0
    shifts_before: int = 0
    encode_s: dict[Shown, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    n_forgotten: int = 0
    n_read_again: int = 0

    def run(self) -> Iterator[Reply]:
        marks = {self.model.tokenizer.id(mark) for mark in MARKS}
        text, stops = self.model.tokenizer.stream(shown=marks), StopFilter(self.request.stop)
        begun = beyond_prefix(self.request, text, self.prompt.opened)
        # What the prompt has begun for the answer belongs to it.
        opened = "" if self.request.prefix or self.request.prefix_tokens else self.prompt.opened
        self.shifts_before = self.sequence.n_shifts
        self.n_cached = self.sequence.reuse(self.prompt.items, self._turn())
        if begun:
            yield Piece(self.request.id, begun, [])
        if not self.model.tokenizer.eog.isdisjoint(self.request.prefix_tokens[-1:]):
            yield Finished(self.request.id, "stop", self._stats())
            return
        reason = "length"
        try:
            logits = yield from self._prefill()
            with closing(self._tokens(logits)) as tokens:
                for token in tokens:
                    if isinstance(token, Progress):
                        yield token
                        continue
                    if token in self.model.tokenizer.eog:
                        reason = "stop"
                        break
                    shown = stops.push(text.push(token))
                    if opened:
                        yield Piece(self.request.id, opened, [])
                        opened = ""
                    yield Piece(self.request.id, shown, [self._info(token)])
                    yield from self.watch.found()
                    if stops.matched is not None:
                        reason = "stop"
                        break
                    if self._full():
                        reason = "context"
                        break
        except Cancelled:
            reason = "cancelled"
        rest = stops.push(text.flush()) + stops.flush()
        if rest:
            yield Piece(self.request.id, rest, [])
        yield from self.watch.rest()
        yield Finished(self.request.id, reason, self._stats(), stops.matched)

    def _prefill(self) -> Generator[Reply, None, Logits]:
        pending = self.prompt.items[self.n_cached :]
        steps = self.sequence.prefill(pending, self.cancelled, self.watch.read)
        while True:
            try:
                done = next(steps)
            except StopIteration as end:
                self.clock.prefilled = perf_counter()
                logits: Logits = end.value
                return logits
            if isinstance(done, Encoding):
                yield self._encoding(done)
            else:
                yield Progress(self.request.id, "prefill", done, len(pending))

    def _encoding(self, encoding: Encoding) -> Progress:
        """Counted in blocks, over all views."""
        shown, views, blocks = encoding.picture, encoding.total, max(1, encoding.blocks)
        self.encode_s[shown] = self.encode_s.get(shown, 0.0) + encoding.seconds
        number = self.prompt.pictures.index(shown) + 1 if shown in self.prompt.pictures else 0
        block = encoding.block + 1 if encoding.done < views else blocks
        return Progress(
            self.request.id,
            "encode",
            encoding.done * blocks + encoding.block,
            views * blocks,
            picture=(number, len(self.prompt.pictures)),
            view=(min(encoding.done + 1, views), views),
            block=(min(block, blocks), blocks),
        )

    def _turn(self) -> int:
        """How many items come before those that open the answer."""
        if not self.model.built.caches.states.n_slots:
            return 0
        opened = answer_opening(self.model.tokenizer, self.model.template, self.request)
        items = self.prompt.items
        return len(items) - max(1, len(opened) if items[-len(opened) :] == opened else 1)

    def _tokens(self, logits: Logits) -> Generator[int | Progress, None, None]:
        """Yields drawn tokens; devices compute the next step while a token is being handled. And
        how far reading is where what stays of a full context has to be read again.
        """
        limit = self.request.max_tokens
        if limit is None:
            limit = CONTEXTS_AT_MOST * self.sequence.n_ctx
        history = [item for item in self.prompt.items if isinstance(item, int)]
        while self.n_generated < limit:
            self.logits = logits
            token = self.sampler.sample(logits, history)
            self.n_generated += 1
            if self.n_generated == 1:
                self.clock.first = perf_counter()
            history.append(token)
            if token in self.model.tokenizer.eog or self.n_generated == limit or self._full():
                yield token
                return
            if len(self.sequence.items) >= self.sequence.n_ctx:
                yield from self._shift()
            finish = self.watch.start(token)
            try:
                yield token
            finally:
                logits = finish()
            if self.cancelled():
                raise Cancelled("the answer")

    def _shift(self) -> Iterator[Progress]:
        steps = self.sequence.shifting(self.prompt.keep, self.cancelled)
        read_again = 0
        while True:
            try:
                done, total = next(steps)
            except StopIteration as end:
                self._forgot(end.value)
                self.n_forgotten += len(end.value)
                self.n_read_again += read_again
                return
            read_again = total
            yield Progress(self.request.id, "prefill", done, total)

    def _read_again(self) -> Iterator[str]:
        if self.n_read_again and self.model.built.caches.states.n_slots:
            yield (
                f"the context was full: {self.n_forgotten} tokens were forgotten and"
                f" {self.n_read_again} read again, as a recurrent state cannot forget some"
            )

    def _forgot(self, gone: list[Item]) -> None:
        for extent in extents(gone):
            size = extent.picture.size
            self.notes.append(f"a picture of {size} no longer fits the context and was forgotten")

    def _full(self) -> bool:
        sequence = self.sequence
        return self.request.when_full == "stop" and len(sequence.items) >= sequence.n_ctx

    def _info(self, token: int) -> TokenInfo:
        if not self.request.logprobs:
            return TokenInfo(token)
        best = top_k(self.logits, min(self.request.logprobs, self.logits.size)).ids
        logp = log_softmax(self.logits, np.append(best, token))
        shown = self.model.tokenizer.shown
        top = [
            Alternative(i, shown(i), p) for i, p in zip(best.tolist(), logp.tolist(), strict=False)
        ]
        return TokenInfo(token, float(logp[-1]), shown(token), top)

    def _stats(self) -> Stats:
        clock, now = self.clock, perf_counter()
        prefilled = clock.prefilled or now
        first = clock.first or now
        encode_s = sum(self.encode_s.values())
        return Stats(
            n_prompt=len(self.prompt.items),
            n_cached=self.n_cached,
            n_generated=self.n_generated,
            tokenize_s=clock.tokenized - clock.started,
            prefill_s=max(0.0, prefilled - clock.tokenized - encode_s),
            first_token_s=first - clock.started,
            decode_s=now - first,
            seed=self.sampler.seed,
            n_context=len(self.sequence.items),
            n_shifts=self.sequence.n_shifts - self.shifts_before,
            n_truncated=self.prompt.n_truncated,
            encode_s=encode_s,
            n_image_rows=sum(run.end - run.begin for run in runs(self.prompt.items)),
            pictures=[self._picture(i, p) for i, p in enumerate(self.prompt.pictures)],
            notes=[*self.prompt.notes, *self.notes, *self._read_again()],
            changes=self.request.changes,
        )

    def _picture(self, i: int, picture: Shown) -> PictureStats:
        """What became of a picture; one that is shown twice took its time for the first."""
        is_first = self.prompt.pictures.index(picture) == i
        return PictureStats(
            i + 1,
            picture.digest,
            *picture.size,
            n_tokens(self.model.tokenizer, picture.plan),
            picture.plan.rows,
            [(view.size.w, view.size.h) for view in picture.plan.views],
            self.encode_s.get(picture, 0.0) if is_first else 0.0,
        )
