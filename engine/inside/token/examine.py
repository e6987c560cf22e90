"""One token looked at: the step that made it, computed again beside the conversation."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from engine.arrays.lens_file import open_lens
from engine.errors import BadSetting, Cancelled, SequenceBusy
from engine.inside.results import result_parts
from engine.inside.token.choice import choice
from engine.inside.token.context import context_items, context_of
from engine.inside.token.glance import Glance, InsideProbes
from engine.kvcache.causal import MAX_SEQUENCES
from engine.kvcache.group import CacheGroup
from engine.progress import reporting
from engine.protocol import Attended, Examine, Examined, Progress, Reply, StepRecord
from engine.runner.edits import PLAIN, SequenceEdits, edits_for
from engine.runner.loading import LoadedModel
from engine.runner.pictures.items import Item, before_group, rows_looked_at
from engine.runner.pictures.viewer import Encoding
from engine.runner.profile import step_record
from engine.runner.prompt import Prompt
from engine.runner.sequence import Sequenced
from engine.runner.stepper import Extras
from engine.scheduler.probes import Probed, Probes
from engine.scheduler.record import Recording

SCRATCH = MAX_SEQUENCES - 1
"""The sequence's number: its bit is in no cell but while something is computed again."""


@dataclass(frozen=True)
class Scratch:
    """`sequence` holds the first items of a context; the rest is to be computed. Where it
    `is_conversation`, what followed these in the conversation is forgotten.
    """

    sequence: Sequenced
    is_conversation: bool


@contextmanager
def scratch(
    conversation: Sequenced, context: Sequence[Item], edits: SequenceEdits = PLAIN
) -> Iterator[Scratch]:
    """A sequence to compute `context` in, with these edits; it shares the conversation's cells.

    It takes free cells for what is not shared and gives them back at the end, whatever happens: the
    conversation's cells stay as they are. Where too few are free, also for pictures that layers
    look at, the conversation itself goes on with the context. Raises `SequenceBusy` where it
    cannot, as it is being answered.
    """
    caches = conversation.stepper.built.caches
    caches.remove(SCRATCH, 0)  # should an end have failed
    n = conversation.shared(context, edits)
    try:
        caches.share(SCRATCH, conversation.number, n)
        if _has_room(caches, context[n:]):
            held = list(context[:n])
            beside = Sequenced(
                conversation.stepper, conversation.viewer, held, SCRATCH, edits=edits
            )
            yield Scratch(beside, False)
            return
    finally:
        try:
            caches.remove(SCRATCH, 0)
        except BaseException:  # it may be interrupted, but not left out
            caches.remove(SCRATCH, 0)
            raise
    if conversation.is_held:
        raise SequenceBusy
    conversation.reuse(context, edits=edits)
    yield Scratch(conversation, True)


def _has_room(caches: CacheGroup, items: Sequence[Item]) -> bool:
    """True if there are cells for items, and for the rows of pictures that layers look at."""
    if caches.encoded is not None and caches.encoded.n_room < rows_looked_at(items):
        return False
    return caches.n_free >= len(items)


MOST_LISTED = 256


def examine(
    model: LoadedModel, conversation: Sequenced, request: Examine, cancelled: Callable[[], bool]
) -> Iterator[Reply]:
    """Yields how far it is, then what was requested, `Examined` last. `cancelled` is called before
    each step.

    The conversation stays as it is in the caches, unless they have no room: then `Examined.note`
    says so. Raises `BadSetting`, `TemplateError`, `ContextFull`, `CannotSee`,
    `UnknownPictures`, `NotSupported`, `Cancelled`, and what a device may raise.
    """
    prompt = context_of(model, conversation, request)
    yield from _Examination(model, request, prompt, cancelled).run(conversation)


def edits_of(model: LoadedModel, request: Examine, prompt: Prompt) -> SequenceEdits:
    """The edits of what a request names. Raises `BadSetting`, `NotSupported`."""
    n_prompt = max(1, len(prompt.items) - len(request.prefix_tokens))
    return edits_for(model.built, request.edits, n_prompt, request.changes)


@dataclass
class _Examination:
    model: LoadedModel
    request: Examine
    prompt: Prompt
    cancelled: Callable[[], bool]
    context: list[Item] = field(init=False)
    wanted: int | None = field(init=False)
    results: list[Probed] = field(default_factory=list)

    def __post_init__(self) -> None:
        request, items = self.request, self.prompt.items
        _check(self.model, request, items)
        self.context = items[: request.at]
        came = None if request.at is None else items[request.at]
        self.wanted = came if request.wanted is None and isinstance(came, int) else request.wanted

    def run(self, conversation: Sequenced) -> Iterator[Reply]:
        request, n = self.request, len(self.context)
        shown = context_items(self.model.tokenizer, self.prompt.items, self.prompt.pictures)
        wants_any = request.lens or request.record or request.sampling or request.probes
        if not wants_any and request.attention_layers is None:
            yield Examined(request.id, shown, n)
            return
        through = open_lens(request.lens_file) if request.lens_file else None
        n_held, note = len(conversation.items), ""
        edits = edits_of(self.model, request, self.prompt)
        with scratch(conversation, self.context, edits) as found:
            n_shared = len(found.sequence.items)
            if found.is_conversation and n_shared < n_held:
                note = (
                    "the cache has no room for it beside the conversation, of which the next answer"
                    f" reads the tokens from {n_shared} on again"
                )
            glance, step = yield from self._compute(found.sequence)
            logits = glance.logits
            wanted = int(np.argmax(logits)) if self.wanted is None else self.wanted
            shown_text = self.model.tokenizer.shown
            history = [item for item in self.context if isinstance(item, int)]
            drawn = request.sampling
            attended = yield from self._attended(glance)
            yield from result_parts(request.id, 0, self.results)
            yield Examined(
                request.id,
                shown,
                n,
                n - n_shared,
                glance.lens(request.top_k, wanted, shown_text, through) if request.lens else None,
                attended,
                None if drawn is None else choice(logits, history, drawn, wanted, shown_text),
                step,
                note,
            )

    def _compute(
        self, sequence: Sequenced
    ) -> Generator[Progress, None, tuple[Glance, StepRecord | None]]:
        """The last step of the context, looked at, after all before it."""
        last = before_group(self.context, len(self.context) - 1)
        pending = self.context[len(sequence.items) : last]
        if pending:
            for done in sequence.prefill(pending, self.cancelled):
                yield self._progress(done, len(pending))
        part = self.context[last:]
        steps = sequence.extras(part, self.cancelled)
        extras = yield from reporting(steps, lambda done: self._progress(done, 0))
        record = self._record(sequence, part, extras) if self.request.record else None
        self._heed()
        return self._look(sequence, part, extras), record

    def _look(self, sequence: Sequenced, part: Sequence[Item], extras: Extras) -> Glance:
        inside = self.request.lens or self.request.attention_layers is not None
        layers = tuple(self.model.built.layers) if inside else ()
        patterns = tuple(self.request.probes)
        step = sequence.begin(part, extras, probes=InsideProbes(patterns, layers))
        logits = step()
        wanted = {node for _, node in Probes(patterns).of(step.plan.outline.graph)}
        self.results = [one for one in step.probed() if one.node in wanted]
        return Glance.of(self.model, step, logits, sequence.number, len(self.context) - 1)

    def _attended(self, glance: Glance) -> Generator[Progress, None, Attended | None]:
        """Layer by layer: of long contexts keys are many."""
        request = self.request
        if request.attention_layers is None:
            return None
        others = request.lens or request.sampling or request.record or request.probes
        if others and not glance.queries:  # a model without attention reports the rest
            return None
        layers = glance.attending(request.attention_layers)

        def as_progress(done: int) -> Progress:
            self._heed()
            return Progress(request.id, "look", done, len(glance.queries))

        self._heed()
        return (yield from reporting(layers, as_progress))

    def _record(self, sequence: Sequenced, part: Sequence[Item], extras: Extras) -> StepRecord:
        """The times of the step as it is in an answer: its plan is there, and nobody looks."""
        for _ in range(2):
            self._heed()
            recording = Recording()
            sequence.begin(part, extras, recording)()
            recording.done("logits")
            sequence.reuse(self.context)
        return step_record(recording)

    def _progress(self, done: int | Encoding, total: int) -> Progress:
        if isinstance(done, Encoding):
            return Progress(self.request.id, "encode", done.done, done.total)
        return Progress(self.request.id, "prefill", done, total)

    def _heed(self) -> None:
        if self.cancelled():
            raise Cancelled("inspecting the token")


def _check(model: LoadedModel, request: Examine, items: Sequence[Item]) -> None:
    """Raise `BadSetting` for what is out of its range."""
    n = len(items)
    if request.at is not None:
        if not 1 <= request.at < n:
            raise BadSetting("at", request.at, f"a token's position from 1 to {n - 1}")
        if not isinstance(items[request.at], int):
            raise BadSetting(
                "at", request.at, "the position of a token; this one belongs to a picture"
            )
    n_vocab, n_layer = model.built.n_vocab, model.built.n_layer
    if request.wanted is not None and not 0 <= request.wanted < n_vocab:
        raise BadSetting("wanted", request.wanted, f"a token from 0 to {n_vocab - 1}")
    if not 1 <= request.top_k <= MOST_LISTED:
        raise BadSetting("top_k", request.top_k, f"a number from 1 to {MOST_LISTED}")
    for layer in request.attention_layers or ():
        if not 0 <= layer < n_layer:
            raise BadSetting("attention_layers", layer, f"layers from 0 to {n_layer - 1}")
