"""One request from text to text: it wants items computed, takes the logits behind them, sends
pieces.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from time import perf_counter

import msgspec
import numpy as np
from numpy.typing import NDArray

from engine.answers.forms import MARKS
from engine.errors import BadSetting, Cancelled, NotSupported
from engine.models.base import N_BEST, Output
from engine.progress import reporting
from engine.protocol import (
    EditsRevised,
    Finished,
    Generate,
    Piece,
    Progress,
    Reply,
    ReviseEdits,
    Stats,
    TokenInfo,
)
from engine.runner.answering.drawing import Drawing, Row, token_info
from engine.runner.answering.tally import Tally
from engine.runner.drafting.drafts import NO_DRAFT, Draft, Drafts
from engine.runner.drafting.economy import MOST, Chances
from engine.runner.drafting.model import Guesser
from engine.runner.edits import edits_for, with_scales
from engine.runner.forms.apart import Apart, Plain
from engine.runner.forms.turns import has_tools
from engine.runner.loading import LoadedModel
from engine.runner.pictures.items import Item, n_read
from engine.runner.pictures.viewer import Encoding
from engine.runner.prompt import Prompt, answer_opening, beyond_prefix, make_prompt
from engine.runner.sequence import Sequenced
from engine.runner.stepper import TEXT, Extras, Logits
from engine.runner.watch import Watch
from engine.sampling.cuts import best_of
from engine.sampling.stops import LineStop, StopFilter
from engine.settings import drafters
from engine.tokenizer import Tokenizer
from engine.tokenizer.words import Pause, no_pause


class PromptInfos:
    """How likely each token of a prompt is after those before it; nothing comes before the first.
    Rows of pictures are left out, and count for what follows them.
    """

    def __init__(self, tokenizer: Tokenizer, items: Sequence[Item], n_top: int) -> None:
        self._tokenizer, self._items, self._n_top = tokenizer, items, n_top
        self.infos: list[TokenInfo] = []
        self._at = 0
        if items and isinstance(items[0], int):
            self.infos.append(
                TokenInfo(items[0], None, tokenizer.shown(items[0]), [], tokenizer.half(items[0]))
            )

    def add(self, rows: NDArray[np.float32]) -> None:
        """Logits [t, V] behind the next t items."""
        following = self._items[self._at + 1 : self._at + 1 + len(rows)]
        self._at += len(rows)
        for row, item in zip(rows, following, strict=False):
            if isinstance(item, int):
                self.infos.append(token_info(self._tokenizer, row, item, self._n_top))


class Words:
    """Whole characters, none of a stop string or behind it, thoughts and calls apart where that was
    requested. `begun` is what the prompt has begun of the answer, which belongs to it.
    """

    def __init__(self, model: LoadedModel, request: Generate, prompt: Prompt) -> None:
        marks = {model.tokenizer.id(mark) for mark in MARKS}
        self._text, self._stops = model.tokenizer.stream(shown=marks), StopFilter(request.stop)
        self._lines = LineStop(request.lines.indent, request.lines.seconds)
        opened = "" if request.prefix or request.prefix_tokens else prompt.opened
        self.begun = beyond_prefix(request, self._text, prompt.opened)
        self._teller: Apart | Plain = Plain(request, opened)
        if request.apart or has_tools(request):
            apart = Apart(model.template, request, prompt.opened, request.prefix)
            self._teller = apart if request.apart else Plain(request, opened, apart)

    def first(self) -> Iterator[Reply]:
        """Yield the replies before the first token."""
        if self.begun:
            yield from self._teller.push(self.begun, [])

    def text_of(self, token: int) -> str:
        """Return the text that the next token completes."""
        return self._text.push(token)

    def pieces(self, text: str, info: TokenInfo) -> Iterator[Reply]:
        """More text, and the token that made it certain."""
        yield from self._teller.push(self._lines.push(self._stops.push(text)), [info])

    @property
    def stop(self) -> str | None:
        """The stop string that was met."""
        return self._stops.matched

    @property
    def ended(self) -> bool:
        """True if a limit of lines ends the answer."""
        return self._lines.ended

    def rest(self) -> Iterator[Reply]:
        """Yield the text that was held back."""
        left = self._stops.push(self._text.flush()) + self._stops.flush()
        yield from self._teller.finish(self._lines.push(left) + self._lines.flush())

    def reason(self, reason: str) -> str:
        """Why the answer ended, as the client gets it; a stop string may also stand in a call."""
        reported = self._teller.reason(reason)
        return reason if reported == "length" and self.stop is not None else reported


MAX_LOGPROBS = 256


def check(model: LoadedModel, request: Generate) -> None:
    """Raise `GivesNoText`, `OnlyRanks`, `BadSetting`."""
    model.built.check_writes()
    if not 0 <= request.logprobs <= MAX_LOGPROBS:
        raise BadSetting("logprobs", request.logprobs, f"a number from 0 to {MAX_LOGPROBS}")
    if not 0 <= (request.prompt_logprobs or 0) <= MAX_LOGPROBS:
        value = request.prompt_logprobs
        raise BadSetting("prompt_logprobs", value, f"a number from 0 to {MAX_LOGPROBS}")
    if request.speculation.type:
        try:
            drafters(request.speculation.type)
        except ValueError as error:
            raise BadSetting("speculation", request.speculation.type, str(error)) from None
    if request.max_tokens is not None and request.max_tokens < 0:
        raise BadSetting("max_tokens", request.max_tokens, "0 or more")


Revised = Callable[[], ReviseEdits | None]


def never_revised() -> None:
    """The edits stay those of the request."""


CONTEXTS_AT_MOST = 10
_WAITING = 0.02  # seconds between two looks whether a form is ready, or nobody wants it any more
FORESEEN = 256


class RunningAnswer:
    """An answer while it is written, in a sequence that it has entered.

    What it wants computed is `pending`: what is left of its prompt, or the token drawn last. One
    step takes a `part` of these; while it is computed the answer sends the token before, and takes
    the logits behind the part. It has ended when there is a `reason`. Who drives it calls `step`
    again and again, or what `step` calls, with parts of other answers beside.

    Raises `GivesNoText`, `OnlyRanks`, `BadSetting`, `TemplateError`, `ContextFull`, `CannotSee`,
    `UnknownPictures`, `BadForm`; its steps raise what a device may raise, and `FormFailed`.
    """

    def __init__(
        self,
        model: LoadedModel,
        request: Generate,
        cancelled: Callable[[], bool],
        watching: Callable[[Sequenced], Watch] | None = None,
        pause: Pause = no_pause,
        revised: Revised = never_revised,
    ) -> None:
        """`watching` makes what computes its parts, for a sequence; `pause` is called again and
        again while a long prompt is tokenised. `revised` gives other edits to go on with.
        """
        check(model, request)
        self.model, self.request, self.cancelled = model, request, cancelled
        self._watching = watching or (lambda sequence: Watch(sequence, request.watch))
        self.tally = Tally()
        built = model.built
        arguments = (model.tokenizer.pausing(pause), model.template, request)
        self.prompt = make_prompt(*arguments, built.n_ctx, model.viewer, built.model.start)
        self.tally.tokenized = perf_counter()
        most, given_most = CONTEXTS_AT_MOST * built.n_ctx, request.max_tokens
        self.limit = most if given_most is None else given_most
        n_prompt = max(1, len(self.prompt.items) - len(request.prefix_tokens))
        edits = edits_for(built, request.edits, n_prompt, request.changes)
        self.edits = with_scales(edits, built, request.lora)
        self._n_prompt, self._revised = n_prompt, revised
        self._revision: ReviseEdits | None = None
        self.pending: list[Item] = list(self.prompt.items)
        self.reason: str | None = None
        self._ending = "length"  # once nothing is pending
        self._token: int | None = None  # drawn and not sent
        self._source, self._refused = "", ""  # of what was drafted in its place
        self.to_read = 0
        self.n_drawn = 0  # of the pending items: the last, or none
        self.words = Words(model, request, self.prompt)
        so_far = request.prefix + self.words.begun
        self.drawing = Drawing(model, request, self.prompt, so_far)
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
        self._prompt_infos = self._wanted_infos()
        if self._prompt_infos is not None:
            sequence.clear()  # all logits are wanted
        n = sequence.reuse(self.pending, self._turn() if was_new else 0, self.edits)
        sequence.chat = self.request.chat
        del self.pending[:n]
        self.to_read = len(self.pending) - self.n_drawn
        if not was_new:
            return
        self.tally.n_cached = sum(map(n_read, sequence.items))
        yield from self.words.first()
        if not self.model.tokenizer.eog.isdisjoint(self.request.prefix_tokens[-1:]):
            self.reason = "stop"

    def leave(self) -> None:
        """Be in no sequence for now: all that it held is pending again."""
        self.pending = [*self.sequence.items, *self.pending]
        self.sequence.clear()

    def step(self) -> Iterator[Reply]:
        """Make one step of its own."""
        try:
            part, extras = yield from self.part(self.model.stepper.patience.most)
        except Cancelled:
            self.reason = "cancelled"
            return
        if not part:
            yield from self.last_pieces()
            return
        finish = self.begin(part, extras)
        try:
            yield from self.last_pieces()
        finally:
            row = finish()
        yield from self.take(part, row)

    @property
    def is_ready(self) -> bool:
        """True if it can enter a sequence without waiting for its form to be read."""
        return self.drawing.guide is None or self.drawing.guide.wait(0.0)

    @property
    def is_reading(self) -> bool:
        """True if what is pending is more than the token drawn last."""
        return len(self.pending) > self.n_drawn

    @property
    def is_alone(self) -> bool:
        """True if its next step is to be its own: somebody looks into it, or wants all logits."""
        return self._prompt_infos is not None or not self.watch.shares()

    @property
    def to_come(self) -> int:
        """How many more tokens may be drawn, as far ahead as cells are promised for them."""
        foreseen = min(FORESEEN, self.model.built.n_ctx // 8)  # of a short context less
        return min(self.limit - self.tally.n_generated, foreseen)

    def part(self, most: int) -> Generator[Reply, None, tuple[list[Item], Extras]]:
        """Return the items of the answer's next step, and the effect of pictures on them. A token
        that was drawn is a part by itself. Raises `Cancelled`.
        """
        revision = self._revised()
        if revision is not None and revision is not self._revision:
            self._revision = revision
            yield self._revise(revision)
        if not self.is_reading and len(self.pending) <= 1:
            return self.pending[:], TEXT
        if self.cancelled():
            raise Cancelled("reading the prompt")
        if self._prompt_infos is not None:
            most = min(most, self.model.stepper.most_outputs)
        n_read = len(self.pending) - self.n_drawn
        part = self.sequence.part(self.pending[:n_read], most) if n_read else self.pending[:]
        extras = self.sequence.extras(part, self.cancelled)
        return part, (yield from reporting(extras, self._encoding))

    def _revise(self, revision: ReviseEdits) -> Reply:
        """Go on with other values of the edits, of which the sequence keeps where they began."""
        (at,) = self.sequence.edits.positions(len(self.sequence.items), 1)
        revised, problem = (self.request.id, revision.number, at, self._n_prompt), ""
        try:
            others = edits_for(
                self.model.built, revision.edits, self._n_prompt, self.request.changes
            )
            self.edits = self.sequence.edits = self.sequence.edits.revised(others, at)
        except (BadSetting, NotSupported) as error:
            problem = str(error)
        return EditsRevised(*revised, problem)

    def speculate(self, chances: Chances) -> None:
        """Make drafts from now on, as was requested; none with edits, whose plans are not ready."""
        wish, options, model = self.request.speculation, self.model.options, self.model.draft
        most = next((n for n in (wish.n_max, options.draft_max) if n is not None), MOST)
        kinds = drafters(wish.type or options.spec_type)
        if model is not None and not wish.type and options.spec_type == "none":
            kinds = frozenset(["draft"])
        if self.prompt.pictures or (model is not None and model.source not in kinds):
            model = None  # it would not see them
        if kinds and most > 0 and not self.edits:
            guess = None if model is None else partial(self._guess, model)
            self.drawing.speculate(chances, min(most, MOST), kinds, guess)

    def _guess(self, model: Guesser, most: int) -> Draft:
        sequence = self.sequence
        at = len(sequence.items) + len(self.pending) - 1
        return Draft(model.draft(sequence.number, self.drawing.seen, most, at), model.source)

    @property
    def drafts(self) -> Drafts | None:
        """Its drafter, if there is one."""
        return self.drawing.drafts

    def draft(self, guesses: int = 0) -> Draft:
        """Return the tokens that may follow what is pending, to be computed in the same step; a
        model makes at most so many `guesses`.
        """
        drafts = self.drafts
        if drafts is None or self.is_reading or not self.pending or self.is_alone:
            return NO_DRAFT
        left = self.limit - self.tally.n_generated - 1
        return drafts.propose(min(left, self.sequence.most_ahead(len(self.pending))), guesses)

    def begin(self, part: list[Item], extras: Extras) -> Callable[[], Row]:
        """Start a step of its own; call what is returned for the logits [V] behind it, or the best
        of them.
        """
        (*_, last) = part
        if self._prompt_infos is not None:
            return self._begin_with_infos(self._prompt_infos, part, extras)
        if self.is_reading or len(part) > 1 or not isinstance(last, int):
            return self.watch.read(part, extras)
        if self.output is Output.BEST:
            self.watch.shared()
            step = self.sequence.start(last, output=Output.BEST)
            return lambda: best_of(step())
        return self.watch.start(last)

    @property
    def output(self) -> Output:
        """The best logits alone where a device finds them and nobody looks at the others."""
        chooses = self.model.stepper.chooses and not self.is_reading and not self.is_alone
        return Output.BEST if chooses and self.drawing.draws_from(N_BEST) else Output.LOGITS

    def last_pieces(self) -> Iterator[Reply]:
        """The token drawn last; best while a step is computed."""
        token, self._token = self._token, None
        if token is None:
            return
        if self.drawing.ends(token):
            self.reason = "stop"
            return
        text = self.words.text_of(token)
        self.drawing.saw(text)
        yield from self.words.pieces(text, self._info(token))
        yield from self.watch.found()
        if self.words.stop is not None:
            self.reason = "stop"
        elif self.words.ended:
            self.reason = "length"
        elif not self.pending:
            self.reason = self._ending

    def take(self, part: list[Item], row: Row) -> Iterator[Reply]:
        """A part was computed, with these logits [V] behind it: the next token is drawn where it
        was the last.
        """
        was_reading = self.is_reading
        del self.pending[: len(part)]
        if was_reading:
            done = self.to_read - len(self.pending) + self.n_drawn
            yield Progress(self.request.id, "prefill", done, self.to_read)
        if self.pending or self.reason is not None:
            return
        self.tally.prefilled = self.tally.prefilled or perf_counter()
        if self._prompt_infos is not None:
            yield Piece(self.request.id, "", self._prompt_infos.infos)
            self._prompt_infos = None
        if not was_reading and self.cancelled():
            self.reason = "cancelled"
        elif self.tally.n_generated == self.limit:  # no token was requested
            self.reason = "length"
        else:
            self._draw(row)

    def take_drafted(self, part: list[Item], draft: Draft, rows: Sequence[Row]) -> list[Reply]:
        """A part and the draft for what follows it were computed, with logits [1 + draft, V] behind
        the part's last item and each token of the draft. Tokens are drawn from these as from the
        rows of single steps, as long as they are those of the draft: only they are recorded.
        """
        replies = list(self.take(part, rows[0]))
        self.tally.n_drafted += len(draft.tokens)
        for token, row in zip(draft.tokens, rows[1:], strict=True):
            if self._token is None:
                break
            self._source, _, _ = draft.source.partition(" ")
            if self._token != token:
                self._refused = self.model.tokenizer.shown(token)
            if self.pending != [token] or self.reason is not None:
                break
            self.tally.n_accepted += 1
            self.sequence.computed(self.pending)
            self.watch.shared()
            replies += self.last_pieces()
            replies += self.take(self.pending[:], row)
        return replies

    def _info(self, token: int) -> TokenInfo:
        """Return the log-probabilities of the token drawn last, and what was drafted for it."""
        info = self.drawing.info(token)
        if not self._source:
            return info
        source, drafted = self._source, self._refused
        self._source = self._refused = ""
        return msgspec.structs.replace(info, source=source, drafted=drafted)

    def saved(self, seconds: float, per_token: float) -> None:
        """A step with drafts saved so much; a token without takes so long."""
        self.tally.saved_s += seconds
        if self.drafts is not None:
            self.drafts.account.add(-seconds, per_token)

    def go_back(self, again: list[Item]) -> None:
        """These are to be computed again, before what is pending."""
        if self.pending:
            self.pending = [*again, *self.pending]
            self.n_drawn = len(self.pending)

    def end(self) -> Iterator[Reply]:
        """Yield the remaining replies, `Finished` last."""
        assert self.reason is not None
        yield from self.words.rest()
        yield from self.watch.rest()
        reason = self.words.reason(self.reason)
        yield Finished(self.request.id, reason, self.stats(), self.words.stop)

    def stats(self) -> Stats:
        """Return the statistics so far."""
        return self.tally.stats(
            self.model.tokenizer,
            self.prompt,
            self.drawing.sampler.seed,
            len(self.sequence.items),
            self.request,
            self.model.built.caches.states.n_slots > 0,
        )

    def _wanted_infos(self) -> PromptInfos | None:
        """Return the collector of the prompt's log-probabilities, until they are sent."""
        n_top = self.request.prompt_logprobs
        if n_top is None or self.n_drawn:
            return None
        return PromptInfos(self.model.tokenizer, self.prompt.items, n_top)

    def _begin_with_infos(
        self, infos: PromptInfos, part: list[Item], extras: Extras
    ) -> Callable[[], Logits]:
        finish = self.sequence.begin_all(part, extras)

        def last() -> Logits:
            rows = finish()
            infos.add(rows)
            row: Logits = rows[-1]
            return row

        return last

    def _draw(self, row: Row) -> None:
        token = self._token = self.drawing.draw(row)
        self.tally.n_generated += 1
        self.tally.first = self.tally.first or perf_counter()
        is_full = len(self.sequence.items) >= self.sequence.n_ctx
        if self.drawing.is_last(token):
            self._ending = "stop"
        elif self.drawing.repeats(token):
            self._ending = "loop"
        elif is_full and self.request.when_full == "stop":
            self._ending = "context"
        elif self.tally.n_generated == self.limit:
            self._ending = "length"
        else:
            if is_full:
                self._shift()
            self.pending.append(token)
            self.n_drawn = 1

    def _formed(self) -> Iterator[Reply]:
        """Waits for what holds it to its form."""
        guide = self.drawing.guide
        if guide is None:
            return
        if not self.is_ready:
            yield Progress(self.request.id, "form", 0, 0)
        while not guide.wait(_WAITING):
            if self.cancelled():
                self.reason = "cancelled"
                return
        guide.begin()

    def _shift(self) -> None:
        gone, again = self.sequence.make_room(self.prompt.keep)
        if gone:
            self.tally.forgot(gone, len(again))
        self.pending, self.to_read = again, len(again)

    def _encoding(self, encoding: Encoding) -> Progress:
        return self.tally.encoded(self.request.id, encoding, self.prompt.pictures)

    def _turn(self) -> int:
        """How many items come before those that open the answer; 0 where cells of any are kept."""
        if self.model.prefixes.is_plain:
            return 0
        opened = answer_opening(self.model.tokenizer, self.model.template, self.request)
        items = self.prompt.items
        return len(items) - max(1, len(opened) if items[-len(opened) :] == opened else 1)
