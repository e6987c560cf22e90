"""Runs steps of one model: pads to buckets, picks the plan, returns logits."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.errors import Cancelled, NotSupported
from engine.graph.graph import Graph
from engine.kvcache.causal import CacheStep, Ints
from engine.kvcache.encoded import EncodedStep, Entering
from engine.kvcache.states import StatePart, StateStep
from engine.layers.edits import NO_EDITS, EditShape
from engine.layers.shift import Shift, build_shift
from engine.layers.step import Pass, Step
from engine.models.axes import Axes, Counts, KnownAxes, counted_axes, cut
from engine.models.base import Output
from engine.models.build import BuiltModel, HiddenRows, StepShape, bucket_of_cells
from engine.progress import finished
from engine.runner.batch import MAX_BATCH, Patience, bucket_of, pieces_of
from engine.runner.edits import PLAIN, EditArrays, EditedPart, SequenceEdits
from engine.scheduler.outline import Outline
from engine.scheduler.plan import Plan, Planner
from engine.scheduler.probes import NO_PROBES, Probed, Probes
from engine.scheduler.record import UNRECORDED, Recorder

LOGITS_BYTES = 64 << 20

Logits = NDArray[np.float32]
Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True)
class Extras:
    """Picture data of a step; its tokens at rows of pictures are -1.

    `rows` and `places` are as in `Step`; `ends` [T] is the last position that each token sees;
    `entering` are pictures that layers of cross attention look at from their tokens on.
    """

    rows: NDArray[np.float32] | None = None
    places: Ints | None = None
    ends: Ints | None = None
    entering: tuple[Entering, ...] = ()


TEXT = Extras()
"""Nothing but tokens, each at the place of its position."""


class StepPart(NamedTuple):
    """One sequence's part of a step: tokens at consecutive positions. `outputs` are the indices of
    those behind which rows are wanted, `edits` are the sequence's.
    """

    tokens: Sequence[int]
    first_position: int
    outputs: Sequence[int]
    sequence: int = 0
    edits: SequenceEdits = PLAIN


class Follower(Protocol):
    """Reads the hidden states of a model's steps."""

    def computed(self, parts: Sequence[StepPart], hidden: Logits) -> None:
        """A step gave these states [T, E] of all its parts' tokens."""

    def forgot(self, sequence: int, begin: int) -> None:
        """A sequence's positions from `begin` on are gone, or hold other tokens now."""

    def shared(self, sequence: int, source: int, n: int) -> None:
        """An empty sequence goes on behind the first `n` tokens of another one."""


@dataclass(frozen=True)
class StartedStep:
    """A step that devices are busy with: a call waits for its logits [outputs, V].

    Afterwards `probed` shows what its probes found, of its real tokens, outputs and cells alone.
    """

    finish: Callable[[], Logits]
    plan: Plan
    axes: Axes
    real: Counts
    cells: Sequence[CacheStep] = ()
    """Of each cache, those that the step wrote."""
    hidden: list[Logits] = field(default_factory=list)
    """The hidden states that it gave beside, once it has finished."""

    def __call__(self) -> Logits:
        return self.finish()

    def probed(self) -> list[Probed]:
        """In the graph's order, until the next step; every dimension that counts is there."""
        return [
            Probed(one.key, one.node, one.device, cut(one.values, one.node, self.axes, self.real))
            for one in self.plan.probed()
        ]


@dataclass
class Stepper:
    """One model on its devices. Knows nothing of requests: tokens in, logits out."""

    built: BuiltModel
    planner: Planner
    fused_attention: bool = True
    _edits: EditArrays = field(default_factory=EditArrays)
    _axes: KnownAxes = field(default_factory=KnownAxes)
    chooses: bool = False
    """Whether the device of the last step's output finds the best logits itself."""
    follower: Follower | None = None
    scales: tuple[float, ...] = ()
    """Of the model's adapters, in sequences whose edits say none."""
    patience: Patience = field(init=False)

    def __post_init__(self) -> None:
        on_cpu = not any(one.chooses for one in self.planner.backends)  # as GPUs do
        self.patience = Patience(sum(one.nbytes for one in self.built.sources), on_cpu)

    def step(
        self,
        tokens: Sequence[int],
        first_position: int,
        outputs: Sequence[int],
        sequence: int = 0,
        recorder: Recorder = UNRECORDED,
        extras: Extras = TEXT,
        output: Output | None = None,
    ) -> Logits:
        """Compute tokens at consecutive positions. Returns the logits [len(outputs), V] after the
        tokens whose indices are in `outputs`; embeddings [len(outputs), E] where that is the
        `output`, by default what the model is for.

        Raises `ContextFull` and `NotSupported` before anything is computed.
        """
        start = self.start
        return start(tokens, first_position, outputs, sequence, recorder, extras, output=output)()

    def start(
        self,
        tokens: Sequence[int],
        first_position: int,
        outputs: Sequence[int],
        sequence: int = 0,
        recorder: Recorder = UNRECORDED,
        extras: Extras = TEXT,
        probes: Probes = NO_PROBES,
        output: Output | None = None,
    ) -> StartedStep:
        """Start a step; call what is returned before the next one.

        What is probed takes memory until `end_probes`. Raises also `CannotProbe`, `NoMem`.
        """
        part = StepPart(tokens, first_position, outputs, sequence)
        return self.start_together([part], recorder, extras, probes, output)

    def start_together(
        self,
        parts: Sequence[StepPart],
        recorder: Recorder = UNRECORDED,
        extras: Extras = TEXT,
        probes: Probes = NO_PROBES,
        output: Output | None = None,
    ) -> StartedStep:
        """Like `start`, of parts of as many sequences; rows are in the order of the parts. What
        fails is undone in all of them.
        """
        output = output or self.built.output
        self._check_reads(parts, extras)
        joined = _join(parts)
        changed = bool(probes) or any(part.edits for part in parts) or extras.rows is not None
        hidden = self._hidden(output, changed)
        try:
            steps = self.built.caches.start(joined.positions, joined.owners, extras.ends)
            encoded = self._encoded(joined.positions, joined.owners, extras.entering)
            states = self._states(parts)
            plan, axes, begun = self._start(
                joined, steps, recorder, extras, encoded, states, probes, output, hidden
            )
        except BaseException:
            self._undo(parts)
            raise
        n_outputs = len(joined.outputs)
        found: list[Logits] = []

        def finish() -> Logits:
            try:
                logits, *others = plan.finish(recorder)
                self.patience.took(len(joined.tokens), perf_counter() - begun)
                self.built.caches.states.done(states)
                found.extend(one.reshape(-1, one.shape[-1]).view(np.float32) for one in others)
                if self.follower is not None and found:
                    self.follower.computed(parts, found[0][: len(joined.tokens)])
            except BaseException:
                self._undo(parts)
                raise
            rows = logits.reshape(-1, self.built.width(output))[:n_outputs]
            return rows.astype(np.float32, copy=False)

        real = Counts(len(joined.tokens), n_outputs, tuple([step.n_kv for step in steps]))
        return StartedStep(finish, plan, axes, real, steps, found)

    def _check_reads(self, parts: Sequence[StepPart], extras: Extras) -> None:
        """Raise `NotSupported` for a text that begins without a prompt for the encoder."""
        begins = not extras.entering and any(part.first_position == 0 for part in parts)
        if begins and self.built.model.encoder is not None:
            what = "reading a text with an encoder-decoder model, which only answers prompts,"
            raise NotSupported(what)

    def _hidden(self, output: Output, changed: bool = False) -> HiddenRows:
        """The hidden states that a step gives: none where edits or pictures `changed` them."""
        if self.built.hidden == "wanted":
            return self.built.hidden
        follows = self.follower is not None and output is not Output.EMBEDDINGS
        return self.built.hidden if follows and not changed else ""

    def _states(self, parts: Sequence[StepPart]) -> Sequence[StateStep]:
        states = self.built.caches.states
        carried = [StatePart(p.sequence, p.first_position, len(p.tokens)) for p in parts]
        return states.start(carried) if states.n_slots else ()

    def drop(self, sequence: int, step: StartedStep, begin: int, end: int) -> None:
        """Forget the tokens `begin` to `end` of a step that has ended, the last ones of their
        sequence. Where states are carried, `forget` goes back to before the step instead.
        """
        for cache, written in zip(self.built.caches.caches, step.cells, strict=True):
            cache.drop(sequence, written.ids[begin:end])

    def end_probes(self) -> None:
        """Free what probes took; harmless where there were none."""
        self.planner.end_probes()

    def _undo(self, parts: Sequence[StepPart]) -> None:
        """Remove the parts' positions, and those behind them, from the caches."""
        for part in parts:
            self.built.caches.remove(part.sequence, part.first_position)

    def _start(
        self,
        joined: "_Joined",
        steps: Sequence[CacheStep],
        recorder: Recorder,
        extras: Extras,
        encoded: EncodedStep | None,
        states: Sequence[StateStep],
        probes: Probes,
        output: Output,
        hidden: HiddenRows,
    ) -> tuple[Plan, Axes, float]:
        """Return the plan, its axes, and when devices began: seconds of `perf_counter`."""
        n_tokens, outputs = len(joined.tokens), joined.outputs
        bucket, n_outputs = bucket_of(n_tokens), bucket_of(len(outputs))
        if n_outputs == bucket and outputs != list(range(n_tokens)):
            n_outputs = bucket_of(bucket + 1)  # as many outputs as tokens are all of them, in order
        cells = self.built.buckets([s.n_kv for s in steps])
        planes = 0 if extras.rows is None else self.built.planes
        seen = None if encoded is None else (len(encoded.ids), len(encoded.cells))
        n_parts = bucket_of(max(1, len(states)))
        edits, scales = self._edits.of(joined.edited, bucket), self._scales(joined.edited, bucket)
        edit_shape = NO_EDITS if edits is None else edits.shape
        active = _active(scales)
        kind = (planes, seen, output, n_parts, edit_shape, hidden, active)
        shape = StepShape(bucket, n_outputs, cells, *kind)
        plan, p, axes = self._plan(shape, probes)
        self.chooses = plan.outline.splits[-1].split.backend.chooses
        step = Step(
            _padded(joined.tokens, bucket, 0),
            _padded(joined.positions, bucket, 0),
            _padded(np.array(outputs, np.int32), n_outputs, -1),
            tuple([s.padded(bucket) for s in steps]),
            None if extras.rows is None else _longer(extras.rows, bucket, 0),
            None if extras.places is None else _longer(extras.places, bucket, 1),
            encoded and replace(encoded, spans=_longer(encoded.spans, bucket, 0)),
            states,
            n_tokens,
            edits,
            scales if active else None,
        )
        inputs = p.fill(step)
        recorder.done("prepare")
        begun = perf_counter()
        plan.start(inputs, recorder)
        return plan, axes, begun

    def _scales(self, parts: Sequence[EditedPart], size: int) -> NDArray[np.float64]:
        """[adapters, size]: the scale of each adapter at each token."""
        found = np.zeros((len(self.scales), size))
        begin = 0
        for part in parts if len(found) else ():
            own = self.scales if part.edits.scales is None else part.edits.scales
            found[:, begin : begin + part.n] = np.array(own)[:, None]
            begin += part.n
        return found

    def _encoded(
        self, positions: Ints, owners: Ints, entering: Sequence[Entering]
    ) -> EncodedStep | None:
        """Rows of pictures that enter and are seen; None where there are none."""
        cache = self.built.caches.encoded
        if cache is None:
            return None
        step = cache.start(positions, owners, entering)
        if step is None:
            return None
        size = bucket_of_cells(step.n_kv, cache.n_cells)
        n = len(step.ids)
        if n and self.built.model.encoder is not None:  # texts have any length
            n = bucket_of(n)
        rows, ids = _longer(step.rows, n, 0), _padded(step.ids, n, -1)
        return replace(step, rows=rows, ids=ids, cells=step.cells[:size].copy())

    def any_prompt(self, n_tokens: int) -> Extras:
        """A prompt of so many tokens for the encoder, if there is one."""
        if self.built.model.encoder is None:
            return TEXT
        return Extras(entering=(Entering(self.encode([0] * n_tokens), 0),))

    def encode(
        self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False
    ) -> Logits:
        """The rows f32 [n, E] of a prompt that the model's encoder reads. Raises `Cancelled`,
        between two of its blocks.
        """

        def check(_: int) -> None:
            if cancelled():
                raise Cancelled("reading the prompt")

        n, size = len(tokens), bucket_of(len(tokens))
        plan, p = self.planner.plan_with(("encoder", size), lambda: self.built.build_encoder(size))
        at = np.arange(size, dtype=np.int32)
        step = Step(_padded(np.array(tokens, np.int32), size, 0), at, at, (), n_real=n)
        (rows,) = finished(plan.run_in_parts(p.fill(step)), check)
        found: Logits = rows.reshape(size, -1).view(np.float32)[:n].copy()
        return found

    @property
    def most_outputs(self) -> int:
        """The most tokens whose logits one step computes, so that it ends within seconds."""
        return min(self.most_logits, self.patience.most)

    @property
    def most_logits(self) -> int:
        """The most tokens whose logits take at most LOGITS_BYTES."""
        run = MAX_BATCH
        while run > 1 and run * self.built.n_vocab * 4 > LOGITS_BYTES:
            run //= 2
        return run

    def all_logits(
        self,
        tokens: Sequence[int],
        wanted_from: int = 0,
        sequence: int = 0,
        edits: SequenceEdits = PLAIN,
    ) -> Iterator[tuple[int, Logits]]:
        """(start, logits [t, V]) of a fresh context behind each step, for every position from
        `wanted_from` on: none of steps before that.
        """
        self.forget(0, sequence=sequence)
        for start, part in pieces_of(tokens, lambda: self.most_outputs):
            skip = min(max(0, wanted_from - start), len(part))
            outputs = range(skip, len(part)) or [len(part) - 1]
            logits = self.start_together([StepPart(part, start, outputs, sequence, edits)])()
            yield start + skip, logits[: len(part) - skip]

    def forget(
        self, begin: int, end: int | None = None, sequence: int = 0, places: int | None = None
    ) -> None:
        """Drop positions from the caches; with an end, later ones move down and their keys turn,
        by `places` where what is dropped took another number of these.

        Where that fails, the whole sequence is forgotten: no key is left at another's position.
        """
        caches = self.built.caches
        if self.follower is not None:
            self.follower.forgot(sequence, begin)
        try:
            for index, distances in enumerate(caches.remove(sequence, begin, end)):
                if distances is not None:
                    if places is not None:
                        distances = np.where(distances, -places, 0).astype(np.int32)
                    self._turn(index, distances)
        except BaseException:
            caches.remove(sequence, 0)
            raise

    def share(self, sequence: int, source: int, n: int) -> None:
        """Have an empty sequence hold the first `n` tokens of another one, in the same cells."""
        self.built.caches.share(sequence, source, n)
        if self.follower is not None:
            self.follower.shared(sequence, source, n)

    def ready(self, n_tokens: int = 1, n_outputs: int = 1, n_sequences: int = 1) -> None:
        """Build what the next tokens need, of an answer or a prompt; nothing runs."""
        self._plan(self._next(n_tokens, n_outputs, n_sequences))

    def is_ready(self, n_tokens: int, n_outputs: int, n_sequences: int) -> bool:
        """True if there is a plan for so many next tokens."""
        return self.planner.has(self._next(n_tokens, n_outputs, n_sequences))

    def _next(self, n_tokens: int, n_outputs: int, n_sequences: int) -> StepShape:
        """The shape of a step of so many next tokens."""
        cells = self.built.buckets([c.n_kv + n_tokens for c in self.built.caches.caches])
        parts = bucket_of(n_sequences) if self.built.caches.states.n_slots else 1
        size, output = bucket_of(n_tokens), self.built.output
        hidden = self._hidden(output)
        planes = self.built.planes if hidden == "wanted" else 0
        active = _active(np.array(self.scales))
        encoded = self.built.next_token.encoded
        rest = (planes, encoded, output, parts, NO_EDITS, hidden, active)
        return StepShape(size, n_outputs, cells, *rest)

    def one_token(self, edits: SequenceEdits = PLAIN) -> Outline:
        """The outline of a decode step with an empty cache, and all that edits hook."""
        points = tuple(sorted({one.point for one in edits.instructions}))
        hooked = EditShape(points, len(edits.instructions))
        active = _active(np.array(self.scales if edits.scales is None else edits.scales))
        shape = self.built.next_token._replace(
            output=self.built.output, edits=hooked, adapters=active
        )
        return self._plan(shape)[0].outline

    def _plan(self, shape: StepShape, probes: Probes = NO_PROBES) -> tuple[Plan, Pass, Axes]:
        def build(shape: StepShape) -> tuple[Pass, Graph]:
            return self.built.build(shape, self.fused_attention)

        edited = bool(shape.edits.points)
        plan, p = self.planner.plan_with(shape, lambda: build(shape), probes, edited)
        if not probes:
            return plan, p, {}
        graph = plan.outline.graph
        fused = self.fused_attention and not self.built.model.biased
        axes = self._axes.of(
            graph,
            shape._replace(cells=()) if fused else graph,
            lambda: counted_axes(
                graph, shape.counts, lambda counts: build(shape.with_counts(counts))[1], fused
            ),
        )
        return plan, p, axes

    def _turn(self, cache: int, distances: Ints) -> None:
        """Rotate keys by how far their cells moved [C]."""

        def build() -> tuple[Shift, Graph]:
            shift = shift_of(self.built, cache)
            return shift, shift.graph

        if cache in with_rope(self.built):
            plan, shift = self.planner.plan_with(("shift", cache), build)
            for values in shift.runs(distances):
                plan.run(values)


def with_rope(built: BuiltModel) -> list[int]:
    """Indices of the caches whose keys were turned by rope."""
    return sorted({layer.cache for layer in built.layers if layer is not None and layer.rope})


def shift_of(built: BuiltModel, cache: int) -> Shift:
    """Turns the keys of one cache, as many cells in a run as a step has tokens."""
    held = [layer for layer in built.layers if layer is not None and not layer.borrowed]
    layers = [layer for layer in held if layer.cache == cache]
    return build_shift(layers, min(MAX_BATCH, built.caches.caches[cache].n_cells))


def _active(scales: NDArray[np.float64]) -> tuple[int, ...]:
    """The adapters of scales [adapters] or [adapters, T] that do anything."""
    return tuple(i for i, each in enumerate(scales) if np.any(each))


class _Joined(NamedTuple):
    """All parts of a step: tokens, positions and sequences [T], and the indices of what is wanted.

    Of single numbers NumPy would take longer than of lists.
    """

    tokens: Ints
    positions: Ints
    owners: Ints
    outputs: list[int]
    edited: list[EditedPart]


def _join(parts: Sequence[StepPart]) -> _Joined:
    tokens: list[int] = []
    positions: list[int] = []
    owners: list[int] = []
    outputs: list[int] = []
    for part in parts:
        outputs += [len(tokens) + i for i in part.outputs]
        tokens += part.tokens
        n = len(part.tokens)
        positions += range(part.first_position, part.first_position + n)
        owners += [part.sequence] * n
    kind = np.int32
    return _Joined(
        np.array(tokens, kind),
        np.array(positions, kind),
        np.array(owners, kind),
        outputs,
        [EditedPart(part.edits, part.first_position, len(part.tokens)) for part in parts],
    )


def _padded(values: Ints, size: int, filler: int) -> Ints:
    if len(values) == size:
        return values
    out = np.full(size, filler, np.int32)
    out[: len(values)] = values
    return out


def _longer(values: NDArray[Number], size: int, axis: int) -> NDArray[Number]:
    """With zeros behind the last along an axis."""
    missing = [(0, size - n if i == axis else 0) for i, n in enumerate(values.shape)]
    return np.pad(values, missing)
