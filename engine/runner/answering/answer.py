"""One request from text to text: it wants items computed, takes the logits behind them, tells."""

from collections.abc import Callable, Container, Generator, Iterator
from time import perf_counter

import numpy as np

from engine.answers import MARKS
from engine.errors import BadSetting, Cancelled, GivesNoText
from engine.models.base import Output
from engine.progress import telling
from engine.protocol import (
    Finished,
    Generate,
    Piece,
    Progress,
    Reply,
    Stats,
    TokenInfo,
)
from engine.runner.answering.infos import PromptInfos, token_info
from engine.runner.answering.tally import Tally
from engine.runner.forms.apart import Apart, Plain
from engine.runner.forms.guide import Guide, rule_of
from engine.runner.loading import LoadedModel
from engine.runner.pictures.items import Item
from engine.runner.pictures.viewer import Encoding
from engine.runner.prompt import answer_opening, beyond_prefix, make_prompt
from engine.runner.sequence import Sequenced
from engine.runner.stepper import MAX_BATCH, TEXT, Extras, Logits
from engine.runner.watch import Watch
from engine.sampling.sampler import Sampler
from engine.sampling.stops import StopFilter

MAX_LOGPROBS = 256
CONTEXTS_AT_MOST = 10
_WAITING = 0.02  # seconds between two looks whether a form is ready, or nobody wants it any more
FORESEEN = 256


class RunningAnswer:
    """An answer while it is written, in a sequence that it has entered.

    What it wants computed is `pending`: what is left of its prompt, or the token drawn last. One
    step takes a `part` of these; while it is computed the answer tells the token before, and takes
    the logits behind the part. It has ended when there is a `reason`. Who drives it calls `step`
    again and again, or what `step` calls, with parts of other answers beside.

    Raises `GivesNoText`, `BadSetting`, `TemplateError`, `ContextFull`, `CannotSee`,
    `UnknownPictures`, `BadForm`; its steps raise what a device may raise, and `FormFailed`.
    """

    def __init__(
        self,
        model: LoadedModel,
        request: Generate,
        cancelled: Callable[[], bool],
        watching: Callable[[Sequenced], Watch] | None = None,
    ) -> None:
        """`watching` makes what computes its parts, for a sequence."""
        _check(model, request)
        self.model, self.request, self.cancelled = model, request, cancelled
        self._watching = watching or (lambda sequence: Watch(sequence, request.watch))
        self.sampler = Sampler(request.sampling, request.bias, model.built.n_vocab)
        self.tally = Tally()
        built = model.built
        given = (model.tokenizer, model.template, request)
        self.prompt = make_prompt(*given, built.n_ctx, model.viewer)
        self.tally.tokenized = perf_counter()
        self.history = [item for item in self.prompt.items if isinstance(item, int)]
        self._ends: Container[int] = () if request.endless else model.tokenizer.eog
        most, given_most = CONTEXTS_AT_MOST * built.n_ctx, request.max_tokens
        self.limit = most if given_most is None else given_most
        self.pending: list[Item] = list(self.prompt.items)
        self.reason: str | None = None
        self._ending = "length"  # once nothing is pending
        self._token: int | None = None  # drawn and not told
        self._logits: Logits = np.empty(0, np.float32)
        self._to_read = 0
        self._n_drawn = 0  # of the pending items: the last, or none
        marks = {model.tokenizer.id(mark) for mark in MARKS}
        self._text, self._stops = model.tokenizer.stream(shown=marks), StopFilter(request.stop)
        # What the prompt has begun for the answer belongs to it.
        opened = "" if request.prefix or request.prefix_tokens else self.prompt.opened
        self._begun = beyond_prefix(request, self._text, self.prompt.opened)
        self._teller = (
            Apart(model.template, request, self.prompt.opened, request.prefix)
            if request.apart
            else Plain(request, opened)
        )
        rule = rule_of(model.tokenizer, model.template, request, self.prompt.opened)
        so_far = request.prefix + self._begun
        self.guide = None if rule is None else Guide(model.form_words, rule, so_far)
        self._prompt_infos: PromptInfos | None = None
        self.is_new = True  # in no sequence yet
        self.sequence: Sequenced
        self.watch: Watch

    def enter(self, sequence: Sequenced) -> Iterator[Reply]:
        """Be answered in a sequence, of which what it shares with what is pending is kept. Also
        where it goes on after it had to `leave` one.
        """
        was_new, self.is_new = self.is_new, False
        self.sequence = sequence
        if was_new:
            self.watch = self._watching(sequence)
            yield from self._formed()
        self.watch.sequence = sequence
        if self.reason is not None:
            return
        self._prompt_infos = self._asked_infos()
        if self._prompt_infos is not None:
            sequence.clear()  # all logits are wanted
        n = sequence.reuse(self.pending, self._turn() if was_new else 0)
        del self.pending[:n]
        self._to_read = len(self.pending) - self._n_drawn
        if not was_new:
            return
        self.tally.n_cached = n
        if self._begun:
            yield from self._teller.push(self._begun, [])
        if not self.model.tokenizer.eog.isdisjoint(self.request.prefix_tokens[-1:]):
            self.reason = "stop"

    def leave(self) -> None:
        """Be in no sequence for now: all that it held is pending again."""
        self.pending = [*self.sequence.items, *self.pending]
        self.sequence.clear()

    def step(self, most: int = MAX_BATCH) -> Iterator[Reply]:
        """One step of its own, of at most so many items."""
        try:
            part, extras = yield from self.part(most)
        except Cancelled:
            self.reason = "cancelled"
            return
        if not part:
            yield from self.tell()
            return
        finish = self.begin(part, extras)
        try:
            yield from self.tell()
        finally:
            row = finish()
        yield from self.take(part, row)

    @property
    def is_ready(self) -> bool:
        """Whether it can enter a sequence without waiting for its form to be read."""
        return self.guide is None or self.guide.wait(0.0)

    @property
    def is_reading(self) -> bool:
        """Whether what is pending is more than the token drawn last."""
        return len(self.pending) > self._n_drawn

    @property
    def is_alone(self) -> bool:
        """Whether its next step is to be its own: somebody looks into it, or wants all logits."""
        return self._prompt_infos is not None or not self.watch.shares()

    @property
    def to_come(self) -> int:
        """How many more tokens may be drawn, as far ahead as cells are promised for them."""
        return min(self.limit - self.tally.n_generated, FORESEEN)

    def part(self, most: int) -> Generator[Reply, None, tuple[list[Item], Extras]]:
        """What its next step computes, and what pictures mean for it. A token that was drawn is a
        part by itself. Raises `Cancelled`.
        """
        if not self.is_reading:
            return self.pending[:], TEXT
        if self.cancelled():
            raise Cancelled("reading the prompt")
        if self._prompt_infos is not None:
            most = min(most, self.model.stepper.most_outputs)
        read = self.pending[: len(self.pending) - self._n_drawn]
        part = self.sequence.part(read, most)
        extras = self.sequence.extras(part, self.cancelled)
        return part, (yield from telling(extras, self._encoding))

    def begin(self, part: list[Item], extras: Extras) -> Callable[[], Logits]:
        """Start a step of its own; call what is returned for the logits [V] behind it."""
        (*_, last) = part
        if self._prompt_infos is not None:
            return self._begin_told(self._prompt_infos, part, extras)
        if self.is_reading or not isinstance(last, int):
            return self.watch.read(part, extras)
        return self.watch.start(last)

    def tell(self) -> Iterator[Reply]:
        """The token drawn last; best while a step is computed."""
        token, self._token = self._token, None
        if token is None:
            return
        if token in self._ends:
            self.reason = "stop"
            return
        text = self._text.push(token)
        if self.guide is not None:
            self.guide.saw(text)
            self.guide.prepare()
        shown = self._stops.push(text)
        yield from self._teller.push(shown, [self._info(token)])
        yield from self.watch.found()
        if self._stops.matched is not None:
            self.reason = self._cut("stop")
        elif not self.pending:
            self.reason = self._ending

    def take(self, part: list[Item], row: Logits) -> Iterator[Reply]:
        """A part was computed, with these logits [V] behind it: the next token is drawn where it
        was the last.
        """
        was_reading = self.is_reading
        del self.pending[: len(part)]
        if was_reading:
            done = self._to_read - len(self.pending) + self._n_drawn
            yield Progress(self.request.id, "prefill", done, self._to_read)
        if self.pending or self.reason is not None:
            return
        self.tally.prefilled = self.tally.prefilled or perf_counter()
        if self._prompt_infos is not None:
            yield Piece(self.request.id, "", self._prompt_infos.infos)
            self._prompt_infos = None
        if not was_reading and self.cancelled():
            self.reason = "cancelled"
        elif self.tally.n_generated == self.limit:  # nothing was asked for
            self.reason = "length"
        else:
            self._draw(row)

    def end(self) -> Iterator[Reply]:
        """What is left to be told, `Finished` last."""
        assert self.reason is not None
        rest = self._stops.push(self._text.flush()) + self._stops.flush()
        yield from self._teller.finish(rest)
        yield from self.watch.rest()
        yield Finished(
            self.request.id, self._teller.reason(self.reason), self.stats(), self._stops.matched
        )

    def stats(self) -> Stats:
        """What it took so far."""
        return self.tally.stats(
            self.model.tokenizer,
            self.prompt,
            self.sampler.seed,
            len(self.sequence.items),
            self.request.changes,
            self.model.built.caches.states.n_slots > 0,
        )

    def _asked_infos(self) -> PromptInfos | None:
        """What the prompt's tokens are told in, until they are."""
        n_top = self.request.prompt_logprobs
        if n_top is None or self._n_drawn:
            return None
        return PromptInfos(self.model.tokenizer, self.prompt.items, n_top)

    def _begin_told(
        self, infos: PromptInfos, part: list[Item], extras: Extras
    ) -> Callable[[], Logits]:
        finish = self.sequence.begin_all(part, extras)

        def last() -> Logits:
            rows = finish()
            infos.add(rows)
            row: Logits = rows[-1]
            return row

        return last

    def _draw(self, row: Logits) -> None:
        self._logits = row
        guide = self.guide
        token = self._token = self.sampler.sample(guide.masked(row) if guide else row, self.history)
        if guide is not None:
            guide.take(token)
        self.tally.n_generated += 1
        self.tally.first = self.tally.first or perf_counter()
        self.history.append(token)
        is_full = len(self.sequence.items) >= self.sequence.n_ctx
        if token in self._ends or (guide is not None and guide.is_over):
            self._ending = "stop"
        elif is_full and self.request.when_full == "stop":
            self._ending = "context"
        elif self.tally.n_generated == self.limit:
            self._ending = "length"
        else:
            if is_full:
                self._shift()
            self.pending.append(token)
            self._n_drawn = 1

    def _cut(self, reason: str) -> str:
        """Why it ends where it might go on: what does not fit its form yet is too short."""
        return "length" if self.guide is not None and self.guide.is_incomplete else reason

    def _formed(self) -> Iterator[Reply]:
        """Waits for what holds it to its form."""
        if self.guide is None:
            return
        if not self.is_ready:
            yield Progress(self.request.id, "form", 0, 0)
        while not self.guide.wait(_WAITING):
            if self.cancelled():
                self.reason = "cancelled"
                return
        self.guide.begin()

    def _shift(self) -> None:
        gone, again = self.sequence.make_room(self.prompt.keep)
        if gone:
            self.tally.forgot(gone, len(again))
        self.pending, self._to_read = again, len(again)

    def _encoding(self, encoding: Encoding) -> Progress:
        """Counted in blocks, over all views."""
        shown, views, blocks = encoding.picture, encoding.total, max(1, encoding.blocks)
        encode_s, pictures = self.tally.encode_s, self.prompt.pictures
        encode_s[shown] = encode_s.get(shown, 0.0) + encoding.seconds
        number = pictures.index(shown) + 1 if shown in pictures else 0
        block = encoding.block + 1 if encoding.done < views else blocks
        return Progress(
            self.request.id,
            "encode",
            encoding.done * blocks + encoding.block,
            views * blocks,
            picture=(number, len(pictures)),
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

    def _info(self, token: int) -> TokenInfo:
        if not self.request.logprobs:
            return TokenInfo(token)
        return token_info(self.model.tokenizer, self._logits, token, self.request.logprobs)


def _check(model: LoadedModel, request: Generate) -> None:
    """Raise `GivesNoText`, `BadSetting`."""
    if model.built.output is not Output.LOGITS:
        raise GivesNoText(model.built.arch)
    if not 0 <= request.logprobs <= MAX_LOGPROBS:
        raise BadSetting("logprobs", request.logprobs, f"a number from 0 to {MAX_LOGPROBS}")
    if not 0 <= (request.prompt_logprobs or 0) <= MAX_LOGPROBS:
        value = request.prompt_logprobs
        raise BadSetting("prompt_logprobs", value, f"a number from 0 to {MAX_LOGPROBS}")
    if request.max_tokens is not None and request.max_tokens < 0:
        raise BadSetting("max_tokens", request.max_tokens, "0 or more")
