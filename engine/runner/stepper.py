"""Runs steps of one model: pads to buckets, picks the plan, returns logits."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from engine.gguf.formats import F32, I32
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.tensor import Role, Tensor, leaf
from engine.kvcache.causal import CacheStep, Ints
from engine.layers.rope import RopeParams
from engine.layers.step import Pass, Step
from engine.models.build import BuiltModel
from engine.scheduler.outline import Outline
from engine.scheduler.plan import Plan, Planner
from engine.scheduler.record import UNRECORDED, Recorder

MAX_BATCH = 512
LOGITS_BYTES = 64 << 20
SHORT_PROMPT = 32

Logits = NDArray[np.float32]


@dataclass
class Stepper:
    """One model on its devices. Knows nothing of requests: tokens in, logits out."""

    built: BuiltModel
    planner: Planner
    fused_attention: bool = True
    _passes: dict[object, Pass] = field(default_factory=dict)
    _shift_tables: dict[Tensor, RopeParams] = field(default_factory=dict)

    def step(
        self,
        tokens: Sequence[int],
        first_position: int,
        outputs: Sequence[int],
        sequence: int = 0,
        recorder: Recorder = UNRECORDED,
    ) -> Logits:
        """Compute tokens at consecutive positions; logits [len(outputs), V] of those asked for.

        Raises `ContextFull` before anything is computed.
        """
        return self.start(tokens, first_position, outputs, sequence, recorder)()

    def start(
        self,
        tokens: Sequence[int],
        first_position: int,
        outputs: Sequence[int],
        sequence: int = 0,
        recorder: Recorder = UNRECORDED,
    ) -> Callable[[], Logits]:
        """As `step`, but devices are still busy: the logits come of a call, which no other step may
        precede.
        """
        last = first_position + len(tokens)
        positions = np.arange(first_position, last, dtype=np.int32)
        steps = self.built.caches.start(positions, sequence)
        with self._undone(sequence, first_position):
            plan = self._start(tokens, positions, outputs, steps, recorder)

        def finish() -> Logits:
            with self._undone(sequence, first_position):
                (logits,) = plan.finish(recorder)
            rows = logits.reshape(-1, self.built.n_vocab)[: len(outputs)]
            return rows.astype(np.float32, copy=False)

        return finish

    @contextmanager
    def _undone(self, sequence: int, first_position: int) -> Iterator[None]:
        """A step that fails leaves nothing in the caches."""
        try:
            yield
        except BaseException:
            self.built.caches.remove(sequence, first_position)
            raise

    def _start(
        self,
        tokens: Sequence[int],
        positions: Ints,
        outputs: Sequence[int],
        steps: Sequence[CacheStep],
        recorder: Recorder,
    ) -> Plan:
        bucket, n_outputs = bucket_of(len(tokens)), bucket_of(len(outputs))
        cells = self.built.buckets([s.n_kv for s in steps])
        plan, p = self._plan(bucket, n_outputs, cells)
        step = Step(
            _padded(np.asarray(tokens, np.int32), bucket, 0),
            _padded(positions, bucket, 0),
            _padded(np.asarray(outputs, np.int32), n_outputs, -1),
            tuple(_padded_step(s, bucket) for s in steps),
        )
        inputs = p.fill(step)
        recorder.done("prepare")
        plan.start(inputs, recorder)
        return plan

    def all_logits(
        self, tokens: Sequence[int], wanted_from: int = 0
    ) -> Iterator[tuple[int, Logits]]:
        """(start, logits [t, V]) of a fresh context, for every position from `wanted_from` on."""
        self.forget(0)
        run = MAX_BATCH
        while run > 1 and run * self.built.n_vocab * 4 > LOGITS_BYTES:
            run //= 2
        for start in range(0, len(tokens), run):
            part = tokens[start : start + run]
            skip = min(max(0, wanted_from - start), len(part))
            outputs = range(skip, len(part)) or [len(part) - 1]
            logits = self.step(part, start, outputs)
            if skip < len(part):
                yield start + skip, logits

    def forget(self, begin: int, end: int | None = None, sequence: int = 0) -> None:
        """Drop positions from the caches; with an end, later ones move down and their keys turn."""
        shifts = self.built.caches.remove(sequence, begin, end)
        for index, shift in enumerate(shifts):
            if shift is not None:
                self._shift(index, shift)

    def warm_up(self) -> None:
        """Build and run what a short prompt and an answer need, so that the first one is quick."""
        for n_tokens in (1, SHORT_PROMPT):
            self.step([0] * n_tokens, 0, [n_tokens - 1])
            self.forget(0)

    def one_token(self) -> Outline:
        """How a step of an answer runs, behind an empty cache."""
        plan, _ = self._plan(1, 1, self.built.buckets([0] * len(self.built.caches.caches)))
        return plan.outline

    def _plan(self, n_tokens: int, n_outputs: int, cells: tuple[int, ...]) -> tuple[Plan, Pass]:
        key = (n_tokens, n_outputs, cells)

        def build() -> Graph:
            made, graph = self.built.build(n_tokens, n_outputs, cells, self.fused_attention)
            self._passes[key] = made
            return graph

        plan = self.planner.plan(key, build)
        return plan, self._passes[key]

    def _shift(self, cache: int, shift: Ints) -> None:
        key = ("shift", cache)
        plan = self.planner.plan(key, lambda: self._shift_graph(cache))
        values: dict[Tensor, NDArray[np.generic]] = {}
        for tensor in plan.outline.graph.inputs:
            if tensor.fmt is I32:
                values[tensor] = np.arange(len(shift), dtype=np.int32)
            else:
                values[tensor] = self._shift_tables[tensor].turn(shift)
        plan.run(values)

    def _shift_graph(self, cache: int) -> Graph:
        """Turn the keys of every layer of a cache in place, by a table over its cells."""
        built = self.built
        n_cells = built.caches.caches[cache].n_cells
        ids = leaf("inp_cells", I32, (n_cells,), Role.INPUT)
        tables: dict[object, Tensor] = {}
        written = []
        for layer in built.layers:
            if layer is None or layer.cache != cache or layer.rope is None:
                continue
            rope = layer.rope
            if rope not in tables:
                tables[rope] = leaf("inp_shift", F32, (rope.n_rot, n_cells), Role.INPUT)
                self._shift_tables[tables[rope]] = rope
            keys = ops.cast(layer.k, F32).reshape(-1, layer.heads, n_cells)
            turned = ops.rope(keys, tables[rope], rope.neox)
            written.append(ops.set_rows(layer.k, turned.reshape(layer.k.shape[0], n_cells), ids))
        return Graph.of([], written)


def worst_case(built: BuiltModel, fused_attention: bool = True) -> Graph:
    """The graph that needs the most memory: a full batch over whole caches."""
    cells = tuple(c.n_cells for c in built.caches.caches)
    _, graph = built.build(MAX_BATCH, 1, cells, fused_attention)
    return graph


def bucket_of(n: int) -> int:
    """The size a plan is made for: 1, 2, 3, 4, 6, 8, 12, ... so that a third at most is padding."""
    power = 1 << max(0, n - 1).bit_length()
    return power // 4 * 3 if power >= 4 and n <= power // 4 * 3 else power


def _padded(values: Ints, size: int, filler: int) -> Ints:
    out = np.full(size, filler, np.int32)
    out[: len(values)] = values
    return out


def _padded_step(step: CacheStep, size: int) -> CacheStep:
    spans = np.zeros((size, 4), np.int32)
    spans[: len(step.spans)] = step.spans
    return replace(step, ids=_padded(step.ids, size, -1), spans=spans)
