"""A map of patches: results of one prompt's run are put into another's, one at a time.

Denoising and noising are those of Heimersheim & Nanda (2024); metrics and their normalisation those
of Zhang & Nanda (arXiv 2309.16042). Patches are exact: each cell of a map is a run of its own, and
many runs share a step and the cells of what comes before their patch.
"""

import re
from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, zip_longest
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from engine.errors import BadSetting, NotSupported
from engine.inside.texts import by_token, paired, text_pieces, text_tokens
from engine.laboratory.estimates import log_probabilities
from engine.laboratory.rows import read_parts
from engine.layers.edits import NONE
from engine.models.sites import BY_EXPERT, EXPERTS, edited_name
from engine.protocol import (
    Edit,
    MapPatches,
    PatchesMapped,
    PatchMetric,
    PatchTable,
    Progress,
)
from engine.runner.batch import MAX_BATCH, full_bucket
from engine.runner.edits import SequenceEdits, edits_for
from engine.runner.loading import LoadedModel, name_of
from engine.runner.sequence import Sequenced
from engine.runner.stepper import StartedStep, StepPart
from engine.scheduler.probes import Probes

Floats = NDArray[np.float32]
MOST_TOKENS = 256
MOST_INSTRUCTIONS, MOST_BYTES = 1024, 64 << 20
"""Of all edits in a step."""
SCRATCH_NUMBERS = 29
"""Sequences from the model's own on that one step may have."""
EMBEDDINGS = "embd"
MOST_NOISE, MOST_SEEDS = 1000.0, 100
LEAST_SPAN, LEAST_KL = 0.01, 1e-4
_EDITED = re.compile(r".+_edited(?:-\d+)?", re.ASCII)
SITES = {
    "residual": ("residual",),
    "parts": ("attention", "feed_forward"),
    "heads": ("heads",),
    "experts": (BY_EXPERT,),
}


class Captured(NamedTuple):
    """A run: rows [T, what a token has] of a site's results by layer, in order; the experts [T, U]
    that each token chose, by layer; and the logits [V] of the last token.
    """

    rows: Mapping[int, Sequence[Floats]]
    chosen: Mapping[int, NDArray[np.int64]]
    logits: Floats


class _Place(NamedTuple):
    """Locate a captured result: an edited one, number `order` of its layer, or chosen experts."""

    is_edited: bool
    layer: int
    order: int


def _captured(step: StartedStep, names: Container[str]) -> Iterator[tuple[_Place, Floats]]:
    """Rows [T, ...] of a finished step's probed results: of edited ones those with these names."""
    orders: dict[int, int] = {}
    for one in step.probed():
        rows = by_token(one.values, one.node, step.axes)
        if rows is None:
            continue
        number = one.key.name.rpartition("-")[2]
        layer = int(number) if number.isdecimal() else NONE
        is_edited = _EDITED.fullmatch(one.key.name) is not None
        if is_edited and one.key.name not in names:
            continue  # of another edit
        order = orders.get(layer, 0) if is_edited else 0
        if is_edited:
            orders[layer] = order + 1
        yield _Place(is_edited, layer, order), rows.copy()


class Cell(NamedTuple):
    """A patch, and where its effect belongs."""

    row: int
    column: int
    edits: SequenceEdits


@dataclass
class PatchRuns:
    """Runs of two prompts with the same sites hooked. `start` is patched, `sequence` holds it."""

    model: LoadedModel
    sequence: Sequenced
    tokens: Sequence[int]
    edits: SequenceEdits
    room: Callable[[int], None] = lambda n: None

    @property
    def _recurrent(self) -> bool:
        return bool(self.model.built.caches.states.n_slots)

    def capture(
        self, tokens: Sequence[int], edits: SequenceEdits, site: str, layer: int | None = None
    ) -> Generator[None, None, Captured]:
        """Compute tokens with a site's results of all layers copied out, or of one (NONE: of a
        result that belongs to none). What the sequence held is forgotten; probes keep their memory
        for the next one. Raises `CannotProbe`, `NotSupported`, `BadSetting`.
        """
        same = self.hooks(site, 0)
        if layer is not None:
            same = Edit(site, [] if layer == NONE else [layer], "scale")
        both = _joined(edits, edits_for(self.model.built, [same], len(tokens)))
        at = [NONE] if layer == NONE else same.layers
        known = {i: self.model.built.results.at(site, i) for i in at}
        every = self.model.built.results.layers(site) or [NONE]
        found_at = (one for i in every for one in self.model.built.results.at(site, i))
        stems = {edited_name(site, ""), *(one.name for one in found_at)}
        names = {stem if i == NONE else f"{stem}-{i}" for i in at for stem in stems}
        probes = Probes((r".+_edited(-\d+)?", rf"{EXPERTS}-\d+"))
        found: dict[_Place, list[Floats]] = {}
        logits: Floats = np.empty((0, 0), np.float32)
        stepper = self.model.stepper
        self.sequence.clear()
        try:
            for part in read_parts(stepper, tokens, probes, MAX_BATCH, self.sequence.number, both):
                for place, rows in _captured(part.step, names):
                    found.setdefault(place, []).append(rows)
                logits = part.logits
                yield
        finally:
            self.sequence.clear()
        whole = {place: np.concatenate(rows) for place, rows in found.items()}
        results = {
            i: [whole[one] for one in sorted(whole) if one.is_edited and one.layer == i]
            for i in sorted({one.layer for one in whole if one.is_edited})
        }
        # An edit with `delta` of the same layer is a result of its own; the last one goes on.
        results = {i: rows[-1:] if len(known[i]) == 1 else rows for i, rows in results.items()}
        chosen = {
            one.layer: ids.astype(np.int64) for one, ids in whole.items() if not one.is_edited
        }
        return Captured(results, chosen, logits[-1].copy())

    def hooks(self, site: str, position: int) -> Edit:
        """An edit of all layers that changes nothing: with it one plan serves the whole map."""
        layers = self.model.built.results.layers(site)
        if not layers and site not in self.model.built.results.sites:
            raise NotSupported(f"patching {site} of {self.model.built.arch}")
        positions = "all" if position == 0 else f"{position}:"
        return Edit(site, layers, "scale", positions=positions)

    def logits(self, cells: Sequence[Cell], site: str) -> Iterator[list[tuple[Cell, Floats]]]:
        """Yield the logits [V] of the last token with each patch, those of a step at once; the run
        without is in the sequence.
        """
        stepper, built = self.model.stepper, self.model.built
        last = len(self.tokens) - 1
        hooked = edits_for(built, [self.hooks(site, last)], len(self.tokens))
        for batch in self._batches(cells):
            numbers = range(built.n_sequences, built.n_sequences + len(batch))
            parts: list[StepPart] = []
            patched: list[Sequenced] = []
            try:
                for number, cell in zip(numbers, batch, strict=True):
                    edits = cell.edits if parts else _joined(cell.edits, hooked)
                    one = Sequenced(stepper, number=number)
                    patched.append(one)
                    n = 0 if self._recurrent else self.sequence.shared(self.tokens, edits)
                    one.fork(self.sequence, n, edits)
                    parts.append(one.joining(self.tokens[n:], 1)[0])
                self.room(sum(len(part.tokens) for part in parts))
                rows = stepper.start_together(parts)()
            finally:
                for one in patched:
                    one.clear()
            yield list(zip(batch, rows, strict=True))

    def _batches(self, cells: Sequence[Cell]) -> Generator[list[Cell], None, None]:
        """Cells that share a step. Those of later positions compute fewer tokens: early and late
        ones together make steps of one size, for which one plan is built, with little padding.
        """
        built = self.model.built
        most = 1 if self._recurrent else SCRATCH_NUMBERS - built.n_sequences + 1
        sizes = [self._computed(one) for one in cells]
        usual = int(most * sum(sizes) / max(1, len(sizes)))
        patient = self.model.stepper.patience.most
        free = max(max(sizes, default=1), full_bucket(min(patient, built.caches.n_free, usual)))
        batch: list[Cell] = []
        used = instructions = size = 0
        for cell in _mixed(sorted(cells, key=lambda one: one.edits.first)):
            n = self._computed(cell)
            vectors = sum(4 * one.width for one in cell.edits.instructions)
            more = len(cell.edits.instructions)
            full = (
                len(batch) == most
                or used + n > free
                or instructions + more > MOST_INSTRUCTIONS - built.n_layer
                or size + vectors > MOST_BYTES
            )
            if batch and full:
                yield batch
                batch, used, instructions, size = [], 0, 0, 0
            batch.append(cell)
            used, instructions, size = used + n, instructions + more, size + vectors
        if batch:
            yield batch

    def _computed(self, cell: Cell) -> int:
        """How many tokens a cell computes: all from its patch on."""
        return len(self.tokens) - (0 if self._recurrent else min(cell.edits.first, 1 << 20))


def _mixed(cells: Sequence[Cell]) -> Iterator[Cell]:
    """From both ends in turn."""
    half = -(-len(cells) // 2)
    for first, last in zip_longest(cells[:half], reversed(cells[half:])):
        yield first
        if last is not None:
            yield last


def _joined(edits: SequenceEdits, more: SequenceEdits) -> SequenceEdits:
    return SequenceEdits((*edits.instructions, *more.instructions))


@dataclass
class _Metric:
    """The metric of a run's logits [V], and its normalised effect."""

    kind: PatchMetric
    right: int
    wrong: int
    source_logits: Floats
    start_logits: Floats
    source: float = field(init=False)
    start: float = field(init=False)

    def __post_init__(self) -> None:
        self.source, self.start = self(self.source_logits), self(self.start_logits)
        span = abs(self.source - self.start)
        if span < (LEAST_KL if self.kind == "kl" else LEAST_SPAN):
            found = f"{self.kind} {self.start:.4g} and {self.source:.4g}"
            raise BadSetting("prompts", found, "prompts that differ in the answer")

    def __call__(self, logits: Floats) -> float:
        if self.kind == "logit-diff":
            return float(logits[self.right]) - float(logits[self.wrong])
        rows = log_probabilities(np.stack([logits, self.source_logits]))
        match self.kind:
            case "prob":
                return float(np.exp(rows[0, self.right]))
            case "logprob":
                return float(rows[0, self.right])
            case "kl":
                return float((np.exp(rows[1]) * (rows[1] - rows[0])).sum())

    def effect(self, value: float) -> float:
        """0 for the start's value, 1 for the source's."""
        return (value - self.start) / (self.source - self.start)


def map_patches(
    model: LoadedModel,
    sequence: Sequenced,
    request: MapPatches,
    cancelled: Callable[[], bool],
    claim: Callable[[Sequence[int]], None] = lambda _: None,
    room: Callable[[int], None] = lambda n: None,
) -> Generator[Progress | None, None, PatchesMapped]:
    """Yields how far it is, and None where others may compute. The sequence is empty afterwards. A
    cancelled map has the cells that were done.

    `claim` gets what the sequence is to hold, `room` how many cells the next step takes. Raises
    `BadSetting`, `NotSupported`, `CannotProbe`, and as `make_prompt`.
    """
    clean = request.clean
    corrupt = clean if request.noise else request.corrupt
    sides = (clean, corrupt) if request.noising else (corrupt, clean)
    tokens = [text_tokens(model, sequence, side) for side in sides]
    for one in tokens:
        if not 1 <= len(one) <= MOST_TOKENS:
            raise BadSetting("prompts", f"{len(one)} tokens", f"1 to {MOST_TOKENS} tokens")
    edits = [
        edits_for(model.built, side.edits, len(one))
        for side, one in zip(sides, tokens, strict=True)
    ]
    claim(max(tokens, key=len))
    try:
        if not request.noise:
            runs = PatchRuns(model, sequence, tokens[0], edits[0], room)
            mapping = _Map(model, request, tokens, runs)
            yield from _mapped(mapping, edits, cancelled)
            return mapping.result
        noisy, found = _Noise(model, request, tokens[0]), list[PatchesMapped]()
        rows = yield from noisy.embeddings(PatchRuns(model, sequence, tokens[0], edits[0], room))
        for seed in range(request.seeds):
            added = _joined(edits[0], noisy.edits(rows, seed))
            both = [edits[0], added] if request.noising else [added, edits[0]]
            runs = PatchRuns(model, sequence, tokens[0], both[0], room)
            mapping = _Map(model, request, tokens, runs, seed, request.seeds)
            yield from _mapped(mapping, both, cancelled)
            if mapping.complete or not found:
                found.append(mapping.result)
            if not mapping.complete:
                break
            request = replace(request, right=found[0].right[0], wrong=found[0].wrong[0])
        return _mean(found, mapping.complete)
    finally:
        sequence.stepper.end_probes()
        sequence.clear()


def _mapped(
    mapping: "_Map", edits: Sequence[SequenceEdits], cancelled: Callable[[], bool]
) -> Generator[Progress | None, None, None]:
    """Compute a map of the start's and the source's run with these edits."""
    runs, tokens = mapping.runs, mapping.tokens
    for site in SITES[mapping.request.grid]:
        start = yield from runs.capture(tokens[0], edits[0], site)
        source = yield from runs.capture(tokens[1], edits[1], site)
        runs.sequence.stepper.end_probes()
        mapping.begin(site, start, source)
        yield from _held(runs, edits[0])
        yield from mapping.run(site, start, source, cancelled)
        runs.sequence.clear()


@dataclass
class _Noise:
    """Noise on the embeddings of a prompt's subject. Raises `BadSetting`."""

    model: LoadedModel
    request: MapPatches
    tokens: Sequence[int]

    def __post_init__(self) -> None:
        noise, seeds = self.request.noise, self.request.seeds
        if not 0 < noise <= MOST_NOISE:
            raise BadSetting("noise", noise, f"over 0, and at most {MOST_NOISE:g}")
        if not 1 <= seeds <= MOST_SEEDS:
            raise BadSetting("seeds", seeds, f"1 to {MOST_SEEDS}")

    @cached_property
    def places(self) -> list[int]:
        """Positions of the subject's tokens, at its last occurrence."""
        subject = self.request.subject
        if not subject:
            return list(range(1, len(self.tokens))) or [0]
        pieces = text_pieces(self.model.tokenizer, self.tokens)
        begin = "".join(pieces).rfind(subject)
        if begin < 0:
            raise BadSetting("subject", subject, "a part of the prompt")
        ends = np.cumsum([len(piece) for piece in pieces])
        starts = ends - [len(piece) for piece in pieces]
        return [
            at
            for at in range(len(pieces))
            if starts[at] < begin + len(subject) and ends[at] > begin
        ]

    def embeddings(self, runs: PatchRuns) -> Generator[None, None, Floats]:
        """Rows [T, E] that enter the first layer."""
        found = yield from runs.capture(self.tokens, runs.edits, EMBEDDINGS, NONE)
        runs.sequence.stepper.end_probes()
        return found.rows[NONE][0]

    def edits(self, rows: Floats, seed: int) -> SequenceEdits:
        """The noise of a seed: standard normal, times so many deviations of the subject's rows."""
        places = self.places
        size = self.request.noise * float(rows[places].std())
        drawn = np.random.default_rng(seed).standard_normal((len(places), rows.shape[1])) * size
        added = [
            Edit(EMBEDDINGS, [], "add", str(at), vector=row.astype("<f4").tobytes())
            for at, row in zip(places, drawn, strict=True)
        ]
        return edits_for(self.model.built, added, len(self.tokens))


def _mean(found: Sequence[PatchesMapped], complete: bool) -> PatchesMapped:
    """The mean of several maps. Effects are those of mean metrics."""
    start = float(np.mean([one.start for one in found]))
    source = float(np.mean([one.source for one in found]))
    tables = []
    for same in zip(*(one.tables for one in found), strict=False):
        values = np.mean([np.frombuffer(one.values, "<f4") for one in same], axis=0)
        effects = (values - start) / (source - start)
        arrays = (values.astype("<f4").tobytes(), effects.astype("<f4").tobytes())
        tables.append(PatchTable(same[0].site, *arrays))
    return replace(found[0], start=start, source=source, tables=tables, complete=complete)


def _held(runs: PatchRuns, edits: SequenceEdits) -> Generator[None, None, None]:
    """The run that is patched, in its sequence."""
    runs.sequence.reuse((), edits=edits)
    for _ in runs.sequence.prefill(runs.tokens, lambda: False):
        yield


@dataclass
class _Map:
    model: LoadedModel
    request: MapPatches
    tokens: Sequence[list[int]]
    runs: PatchRuns
    turn: int = 0
    """Of `turns` maps, whose mean is taken."""
    turns: int = 1
    metric: _Metric = field(init=False)
    tables: list[PatchTable] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    layers: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    complete: bool = True
    done: int = 0
    alike: int = 0
    """Positions before this have the same results in both runs."""

    def __post_init__(self) -> None:
        start, source = self.tokens
        self.pairs = paired(start, source, MOST_TOKENS)
        if self.request.clean.edits == self.request.corrupt.edits:
            both = enumerate(zip(start, source, strict=False))
            self.alike = next((i for i, (a, b) in both if a != b), 0)
        if len(start) != len(source):
            self.notes.append(
                f"{len(start) - len(self.pairs)} tokens of the patched prompt have none to be"
                f" patched from: the prompts have {len(start)} and {len(source)}"
            )
        at = self.request.position
        if at is not None:
            if self.request.grid not in ("heads", "experts"):
                raise BadSetting("position", at, "it only with heads or experts")
            if not 0 <= at < len(start):
                raise BadSetting("position", at, f"0 to {len(start) - 1}")

    def begin(self, site: str, start: Captured, source: Captured) -> None:
        """The metric of both runs, and what the table's axes are. Raises `BadSetting`."""
        clean, corrupt = (start, source) if self.request.noising else (source, start)
        right = self._token("right", self.request.right, clean.logits)
        others = corrupt.logits.copy()
        others[right] = -np.inf
        wrong = self._token("wrong", self.request.wrong, others)
        self.metric = _Metric(self.request.metric, right, wrong, source.logits, start.logits)
        self.layers = sorted(start.rows)
        if self.request.grid == "heads":
            self.columns = list(range(max(self._n_heads(i) for i in self.layers)))
        elif self.request.grid == "experts":
            every = [one for run in (start, source) for one in run.chosen.values()]
            self.columns = sorted({int(e) for one in every for e in one.reshape(-1)})
        else:
            self.columns = list(range(len(self.tokens[0])))

    def run(
        self, site: str, start: Captured, source: Captured, cancelled: Callable[[], bool]
    ) -> Generator[Progress | None, None, None]:
        """Compute a site's cells."""
        values = np.full((len(self.layers), len(self.columns)), np.nan, np.float32)
        cells = []
        for row, layer in enumerate(self.layers):
            for column, found in self._edits(site, layer, start, source):
                if found is None:
                    values[row, column] = self.metric.start
                elif found:
                    made = edits_for(self.model.built, found, len(self.tokens[0]))
                    cells.append(Cell(row, column, _joined(self.runs.edits, made)))
        each = len(SITES[self.request.grid]) * len(cells)
        before, total = self.turn * each, self.turns * each
        for patched in self.runs.logits(cells, site):
            for cell, logits in patched:
                values[cell.row, cell.column] = self.metric(logits)
            self.done += len(patched)
            yield Progress(self.request.id, "score", before + self.done, total)
            if cancelled():
                self.complete = False
                break
        effects = [[self.metric.effect(float(x)) for x in line] for line in values]
        table = np.array(effects, "<f4").reshape(values.shape)
        self.tables.append(PatchTable(site, values.astype("<f4").tobytes(), table.tobytes()))

    def _edits(
        self, site: str, layer: int, start: Captured, source: Captured
    ) -> Generator[tuple[int, list[Edit] | None], None, None]:
        """Each column with the edits of its patch; None where a patch cannot change anything."""
        pairs, grid = self.pairs, self.request.grid
        if grid in ("residual", "parts"):
            last = layer == self.model.built.n_layer - 1
            for a, b in pairs:
                idle = a < self.alike or (last and a != len(self.tokens[0]) - 1)
                yield a, None if idle else list(self._whole(site, layer, source, a, b))
            return
        if self.request.position is not None:
            pairs = [(a, b) for a, b in pairs if a == self.request.position]
        if grid == "heads":
            for head in range(self._n_heads(layer)):
                each = (self._head(layer, source, head, a, b) for a, b in pairs)
                yield head, list(chain.from_iterable(each))
            return
        for column, expert in enumerate(self.columns):
            each = (self._expert(layer, start, source, expert, a, b) for a, b in pairs)
            edits = list(chain.from_iterable(each))
            chosen = any((run.chosen[layer] == expert).any() for run in (start, source))
            yield column, edits or (None if chosen else [])

    def _whole(
        self, site: str, layer: int, source: Captured, a: int, b: int
    ) -> Generator[Edit, None, None]:
        several = len(source.rows[layer]) > 1
        for i, rows in enumerate(source.rows[layer]):
            data = np.ascontiguousarray(rows[b], "<f4").tobytes()
            yield Edit(site, [layer], "set", str(a), i if several else None, vector=data)

    def _head(
        self, layer: int, source: Captured, head: int, a: int, b: int
    ) -> Generator[Edit, None, None]:
        several = len(source.rows[layer]) > 1
        for i, rows in enumerate(source.rows[layer]):
            size = rows.shape[1] // self._n_heads(layer)
            part = np.ascontiguousarray(rows[b, head * size : (head + 1) * size], "<f4")
            order = i if several else None
            yield Edit("heads", [layer], "set", str(a), order, head, vector=part.tobytes())

    def _expert(
        self, layer: int, start: Captured, source: Captured, expert: int, a: int, b: int
    ) -> Generator[Edit, None, None]:
        if expert not in start.chosen[layer][a]:
            return
        slots = np.flatnonzero(source.chosen[layer][b] == expert)
        if not slots.size:
            yield Edit(BY_EXPERT, [layer], "scale", str(a), expert=expert, value=0.0)
            return
        rows = source.rows[layer][0][b].reshape(source.chosen[layer].shape[1], -1)
        data = np.ascontiguousarray(rows[slots[0]], "<f4").tobytes()
        yield Edit(BY_EXPERT, [layer], "set", str(a), expert=expert, vector=data)

    def _n_heads(self, layer: int) -> int:
        return self.model.built.results.at("heads", layer)[0].heads or 1

    def _token(self, name: str, text: str | int, logits: Floats) -> int:
        if text == "":
            return int(logits.argmax())
        tokenizer = self.model.tokenizer
        if isinstance(text, int):
            if not 0 <= text < len(logits):
                raise BadSetting(name, text, f"an id from 0 to {len(logits) - 1}")
            return text
        ids = tokenizer.encode(text, add_special=False, parse_special=False, continues=True)
        if len(ids) != 1:
            first = f"; the first is {tokenizer.decode(ids[:1])!r}" if ids else ""
            raise BadSetting(name, f"{text} ({len(ids)} tokens)", f"a text of one token{first}")
        return ids[0]

    @property
    def result(self) -> PatchesMapped:
        """All that was computed."""
        request, tokenizer = self.request, self.model.tokenizer
        metric = self.metric
        texts = [text_pieces(tokenizer, one) for one in self.tokens]
        right = metric.right, tokenizer.shown(metric.right)
        wrong = metric.wrong, tokenizer.shown(metric.wrong)
        return PatchesMapped(
            request.id,
            name_of(self.model.file),
            self.model.device.name,
            request.grid,
            "noising" if request.noising else "denoising",
            request.metric,
            texts[0],
            texts[1],
            right,
            wrong,
            metric.source,
            metric.start,
            self.layers,
            self.columns,
            self.tables,
            self.pairs,
            self.notes,
            self.complete,
        )
