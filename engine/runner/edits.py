"""The edits of a request, checked against a model, and what they are in one step."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadSetting, NotSupported
from engine.layers.edits import NONE, EditShape, Point, StepEdits
from engine.models.adapters import check_scale
from engine.models.build import BuiltModel
from engine.models.sites import BY_EXPERT, Editable, unknown
from engine.protocol import MOST_EDITS, Change, Edit

ALL = 1 << 31
MOST_INSTRUCTIONS = 1024
"""The most instructions of a request: an edit of 30 layers has 30."""
MOST_REVISED = 1 << 14
"""The most instructions of an answer whose edits change while it is written."""
MOST_BYTES = 64 << 20
"""The most bytes of vectors in a step, of all sequences together."""
_POSITIONS = re.compile(r"(-?\d{1,9})?(:)?(\d{1,9})?", re.ASCII)
_INTS, _FLOATS = (16, 64, 256, 1024), (8, 32, 128, 512)

Floats = NDArray[np.float32]


class Formula(NamedTuple):
    """Numbers and vectors by their names in engine/graph/ops/edit.py; u, v and w are whole rows,
    float32, or empty.
    """

    alpha: float = 1.0
    b: float = 0.0
    kappa: float = 0.0
    gamma: float = 0.0
    u: bytes = b""
    v: bytes = b""
    w: bytes = b""
    beta: float = 0.0
    theta: float = 0.0
    jump: bool = False

    @property
    def vectors(self) -> tuple[bytes, bytes, bytes]:
        """u, v and w."""
        return self.u, self.v, self.w

    @property
    def numbers(self) -> tuple[float, ...]:
        """Columns of NUMBERS."""
        return (self.alpha, self.b, self.kappa, self.beta, self.theta, self.gamma, 0.0, 0.0)


class Instruction(NamedTuple):
    """Change channels [low, high) of rows of `width` numbers at positions [begin, end)."""

    point: Point
    width: int
    begin: int
    end: int
    low: int
    high: int
    expert: int
    formula: Formula

    def code(self, rows: dict[bytes, int]) -> tuple[int, ...]:
        """Columns of CODE; a vector gets a row that it keeps."""
        vectors = self.formula.vectors
        uvw = (rows.setdefault(one, len(rows)) if one else NONE for one in vectors)
        return (self.low, self.high, *uvw, int(self.formula.jump), self.expert, 0)


@dataclass(frozen=True)
class SequenceEdits:
    """Hold the instructions for one sequence. A shift of its context has moved items from
    `moved` on down by `gone`: positions count from where these were. `scales` are those of the
    model's adapters in this sequence, None those that the model has for all.
    """

    instructions: tuple[Instruction, ...] = ()
    moved: int = ALL
    gone: int = 0
    scales: tuple[float, ...] | None = None

    def __bool__(self) -> bool:
        return bool(self.instructions)

    @cached_property
    def first(self) -> int:
        """The first item that something is done to, ALL for none."""
        return min((one.begin for one in self.instructions), default=ALL)

    @cached_property
    def bounds(self) -> list[int]:
        """Positions where what is done changes."""
        return sorted({n for one in self.instructions for n in (one.begin, one.end)})

    def at(self, position: int) -> Iterator[Instruction]:
        """Return the instructions at a position, in order."""
        return (one for one in self.instructions if one.begin <= position < one.end)

    def shifted(self, begin: int, gone: int) -> "SequenceEdits":
        """The edits when `gone` items from `begin` on are forgotten."""
        if all(one.begin == 0 and one.end == ALL for one in self.instructions):
            return self
        return replace(self, moved=min(self.moved, begin), gone=self.gone + gone)

    def revised(self, others: "SequenceEdits", at: int) -> "SequenceEdits":
        """These edits before position `at`, and others from there on, which hook the same results.
        Raises `BadSetting` for others.
        """
        ours, theirs = ({one.point for one in e.instructions} for e in (self, others))
        if ours != theirs:
            raise BadSetting("edits", "others", "the same places: only values change in an answer")
        before = [o._replace(end=min(o.end, at)) for o in self.instructions if o.begin < at]
        after = [o._replace(begin=max(o.begin, at)) for o in others.instructions if o.end > at]
        if len(before) + len(after) > MOST_REVISED:
            raise BadSetting("edits", "too many changes", "fewer changes of one answer")
        return replace(self, instructions=(*before, *after))

    def positions(self, first: int, n: int) -> list[int]:
        """Positions of n items from index `first` on."""
        return [i + self.gone * (i >= self.moved) for i in range(first, first + n)]


PLAIN = SequenceEdits()


def common(n: int, edits: SequenceEdits, other: SequenceEdits) -> int:
    """How many of the first n items two sequences compute alike."""
    if edits.scales != other.scales:
        return 0
    same = edits == other
    return n if same else min(n, edits.first, other.first, edits.moved, other.moved)


def with_scales(
    edits: SequenceEdits, built: BuiltModel, lora: Mapping[int, float] | None
) -> SequenceEdits:
    """The edits with a request's scales of adapters, by number: 0 for those that it does not name.
    Raises `BadSetting`.
    """
    if lora is None:
        return edits
    for number, scale in lora.items():
        if not 0 <= number < len(built.adapters):
            if not built.adapters:
                raise BadSetting("lora", number, "none: the model is open without adapters")
            expected = f"a number from 0 to {len(built.adapters) - 1}"
            raise BadSetting("lora", number, expected)
        check_scale(f"adapter {number}", scale)
    return replace(edits, scales=tuple(lora.get(i, 0.0) for i in built.all_adapters))


def edits_for(
    built: BuiltModel, edits: Sequence[Edit], n_prompt: int, changes: Sequence[Change] = ()
) -> SequenceEdits:
    """Check edits against a model, for a prompt of so many items; changes come first. Raises
    `BadSetting`, `NotSupported`.
    """
    if not (edits or changes):
        return PLAIN
    if len(edits) > MOST_EDITS:
        raise BadSetting("edits", f"{len(edits)} edits", f"at most {MOST_EDITS}")
    found: list[Instruction] = []
    for i, change in enumerate(changes):
        change.check()
        if change.factor != 1.0:
            found += _Checked(built, _edit_of(change), f"changes[{i}]", n_prompt).instructions()
    for i, edit in enumerate(edits):
        found += _Checked(built, edit, f"edits[{i}]", n_prompt).instructions()
    if len(found) > MOST_INSTRUCTIONS:
        many = f"{len(found)} edited results"
        raise BadSetting("edits", many, f"at most {MOST_INSTRUCTIONS}; name fewer layers")
    size = sum(map(len, {one for each in found for one in each.formula.vectors}))
    if size > MOST_BYTES // built.n_sequences:
        most = f"at most {MOST_BYTES // built.n_sequences >> 20} MiB"
        raise BadSetting("edits", f"{size >> 20} MiB of vectors", most)
    return SequenceEdits(tuple(found))


def _edit_of(change: Change) -> Edit:
    """The edit that does what a change says."""
    if change.head is not None:
        return Edit("heads", [change.layer], "scale", head=change.head, value=change.factor)
    whole = change.part == "layer"
    site = "residual" if whole else change.part
    return Edit(site, [change.layer], "scale", value=change.factor, delta=whole)


@dataclass(frozen=True)
class _Checked:
    """One edit of a request; errors bear its `name` there."""

    built: BuiltModel
    edit: Edit
    name: str
    n_prompt: int

    def instructions(self) -> Iterator[Instruction]:
        """One for each layer."""
        edit = self.edit
        begin, end = self._positions()
        for layer in self._layers():
            occurrence = NONE if edit.occurrence is None else edit.occurrence
            point = Point(edit.site, layer, occurrence, edit.delta)
            about = self._result(point)
            low, high = self._channels(about)
            expert = self._expert(about, layer)
            formula = self._formula(about.width, low, high)
            yield Instruction(point, about.width, begin, end, low, high, expert, formula)

    def _refuse(self, part: str, value: object, expected: str) -> BadSetting:
        return BadSetting(f"{self.name}.{part}", value, expected)

    def _layers(self) -> Sequence[int]:
        edit, results = self.edit, self.built.results
        if edit.site not in results.sites:
            raise self._refuse("site", edit.site, unknown(results.sites, edit.site))
        have = results.layers(edit.site)
        if not have:
            if edit.layers:
                raise self._refuse("layers", edit.layers, f"none: {edit.site} belongs to no layer")
            return [NONE]
        if not edit.layers:
            raise self._refuse("layers", [], f"at least one of {_ranges(have)}")
        for layer in edit.layers:
            if layer not in have:
                raise self._refuse("layers", layer, f"layers {_ranges(have)}, which have it")
        return edit.layers

    def _result(self, point: Point) -> Editable:
        results = self.built.results
        found, n = results.chosen(point), len(results.at(point.site, point.layer))
        if not found or point.occurrence < NONE:
            raise self._refuse("occurrence", point.occurrence, f"a number from 0 to {n - 1}")
        if problem := next((one.problem for one in found if one.problem), ""):
            where = point.site if point.layer == NONE else f"{point.site}-{point.layer}"
            raise NotSupported(f"editing {where} ({problem})")
        if point.delta and point.site != "residual":
            raise self._refuse("delta", True, "it only with the site residual")
        return found[0]

    def _channels(self, about: Editable) -> tuple[int, int]:
        """Return the channels [low, high) of a row that are edited."""
        edit, width = self.edit, about.width
        if edit.head is not None:
            if not about.heads:
                raise self._refuse("head", edit.head, f"none: {edit.site} has no heads here")
            if not 0 <= edit.head < about.heads:
                raise self._refuse("head", edit.head, f"a head from 0 to {about.heads - 1}")
            if edit.channels is not None:
                raise self._refuse("channels", list(edit.channels), "none where there is a head")
            size = width // about.heads
            return edit.head * size, (edit.head + 1) * size
        if edit.channels is None:
            return 0, width
        low, high = edit.channels
        if self._swaps_channels:
            if not (0 <= low < width and 0 <= high < width and low != high):
                expected = f"two channels from 0 to {width - 1}"
                raise self._refuse("channels", [low, high], expected)
            return 0, width
        if not 0 <= low < high <= width:
            expected = f"[first, end) within 0 to {width}"
            raise self._refuse("channels", [low, high], expected)
        return low, high

    def _expert(self, about: Editable, layer: int) -> int:
        expert = self.edit.expert
        if expert is None:
            return NONE
        if about.slots == 1:
            raise self._refuse("expert", expert, f"none: only {BY_EXPERT} has a row for each")
        routed = self.built.results.at("ffn_moe_logits", layer)
        if expert < 0 or (routed and expert >= routed[-1].width):
            most = f"to {routed[-1].width - 1}" if routed else "on"
            raise self._refuse("expert", expert, f"an expert from 0 {most}")
        return expert

    @property
    def _swaps_channels(self) -> bool:
        return self.edit.op == "swap" and not self.edit.vector

    def _formula(self, width: int, low: int, high: int) -> Formula:
        """The numbers and vectors of the operation."""
        edit, value = self.edit, self.edit.value
        for part in ("value", "bias", "threshold"):
            with np.errstate(over="ignore"):
                if not np.isfinite(np.float32(getattr(edit, part))):
                    raise self._refuse(part, getattr(edit, part), "a finite float32 number")
        d, e = (self._vector(part, width, low, high) for part in ("vector", "other"))

        def row(values: Floats) -> bytes:
            whole = np.zeros(width, np.float32)
            whole[low:high] = values
            return whole.tobytes()

        match edit.op:
            case "set" | "add":
                alpha = 0.0 if edit.op == "set" else 1.0
                return Formula(alpha, b=value, v=b"" if d is None else row(d))
            case "scale":
                return Formula(value)
            case "project" | "hold":
                along = row(self._unit(d))
                kappa, gamma = (-1.0, value) if edit.op == "hold" else (-value, 0.0)
                return Formula(kappa=kappa, gamma=gamma, u=along, w=along)
            case "feature":
                if d is None or e is None:
                    part = "vector" if d is None else "other"
                    raise self._refuse(part, "", "the feature's encoder and decoder vectors")
                held = Formula(kappa=-1.0, gamma=value, u=row(d), w=row(e))
                return held._replace(beta=edit.bias, theta=edit.threshold, jump=True)
            case "swap" if self._swaps_channels:
                if edit.channels is None:
                    raise self._refuse("channels", None, "two channels, or two vectors")
                i, j = edit.channels
                w = np.zeros(width, np.float32)
                w[i], w[j] = 1, -1
                return Formula(kappa=1.0, u=(-w).tobytes(), w=w.tobytes())
            case "swap":
                if d is None or e is None:
                    raise self._refuse("other", "", "a second vector")
                both = np.stack([self._unit(d), self._unit(e)], 1).astype(np.float64)
                if np.linalg.matrix_rank(both, tol=1e-6) < 2:
                    raise self._refuse("other", "a parallel vector", "another direction")
                both = np.stack([d, e], 1).astype(np.float64)
                p = np.linalg.pinv(both)
                u, w = (p[1] - p[0]).astype(np.float32), (d - e).astype(np.float32)
                return Formula(kappa=1.0, u=row(u), w=row(w))

    def _vector(self, part: str, width: int, low: int, high: int) -> Floats | None:
        data: bytes = getattr(self.edit, part)
        if not data:
            return None
        if len(data) % 4 or len(data) // 4 != high - low:
            wanted = f"{high - low} numbers of float32"
            raise self._refuse(part, f"{len(data) / 4:g} numbers", wanted)
        values: Floats = np.frombuffer(data, "<f4").astype(np.float32)
        if not np.isfinite(values).all():
            at = int(np.flatnonzero(~np.isfinite(values))[0])
            raise self._refuse(part, f"number {at} is {values[at]}", "finite numbers")
        return values

    def _unit(self, d: Floats | None) -> Floats:
        """A direction of length 1."""
        length = 0.0 if d is None else float(np.linalg.norm(d.astype(np.float64)))
        if d is None or length == 0.0:
            raise self._refuse("vector", "no direction", "a vector that is not zero")
        return (d / length).astype(np.float32)

    def _positions(self) -> tuple[int, int]:
        """[begin, end) as indices of items."""
        n, text = self.n_prompt, self.edit.positions
        named = {"all": (0, ALL), "prompt": (0, n), "answer": (n, ALL), "last": (n - 1, n)}
        if text in named:
            return named[text]
        parts = _POSITIONS.fullmatch(text)
        if parts is None or not (parts[1] or parts[2]) or (parts[3] and not parts[2]):
            expected = "all, prompt, answer, last, N, A:B, or -N from the prompt's end"
            raise self._refuse("positions", text, expected)
        begin = int(parts[1] or 0)
        begin = max(0, n + begin) if begin < 0 else begin
        end = int(parts[3]) if parts[3] else ALL
        return begin, end if parts[2] else begin + 1


def _ranges(numbers: Sequence[int]) -> str:
    """0 to 5, or a list with gaps: 0-2, 5."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in runs)


class EditedPart(NamedTuple):
    """Items of a sequence with edits, from index `first` of the sequence on."""

    edits: SequenceEdits
    first: int
    n: int


@dataclass
class EditArrays:
    """Makes the arrays of steps; those of the last one are kept, as the next often has the same."""

    _last: tuple[object, StepEdits] | None = field(default=None, repr=False)

    def of(self, parts: Sequence[EditedPart], n_tokens: int) -> StepEdits | None:
        """The edits of a step whose plan has `n_tokens`; None if nothing is done in it."""
        if not any(part.edits for part in parts):
            return None
        spans = [
            [bisect_right(part.edits.bounds, at) for at in part.edits.positions(part.first, part.n)]
            if part.edits
            else [0] * part.n
            for part in parts
        ]
        key = (n_tokens, [part.edits for part in parts], spans)
        if self._last is None or self._last[0] != key:
            made = _arrays(parts, spans, n_tokens)
            self._last = (key, made)
        made = self._last[1]
        return made if made.shape.points else None


def _arrays(
    parts: Sequence[EditedPart], spans: Sequence[Sequence[int]], n_tokens: int
) -> StepEdits:
    """Instructions of one token and point stand side by side, in their order."""
    lists: list[tuple[int, list[int], dict[Point, list[Instruction]]]] = []
    begin = 0
    for part, numbers in zip(parts, spans, strict=True):
        for span in sorted(set(numbers)):
            tokens = [begin + i for i, number in enumerate(numbers) if number == span]
            at = part.edits.positions(part.first, part.n)[tokens[0] - begin]
            by_point: dict[Point, list[Instruction]] = {}
            for one in part.edits.at(at):
                by_point.setdefault(one.point, []).append(one)
            lists.append((span, tokens, by_point))
        begin += part.n
    points = tuple(sorted({point for _, _, by_point in lists for point in by_point}))
    rows: dict[int, dict[bytes, int]] = {}
    code: list[tuple[int, ...]] = []
    number: list[tuple[float, ...]] = []
    first = np.zeros((len(points), n_tokens), np.int32)
    count = np.zeros((len(points), n_tokens), np.int32)
    for _, tokens, by_point in lists:
        for point, instructions in by_point.items():
            k = points.index(point)
            first[k, tokens], count[k, tokens] = len(code), len(instructions)
            for one in instructions:
                code.append(one.code(rows.setdefault(one.width, {})))
                number.append(one.formula.numbers)
    m = _bucket(len(code), _INTS)
    tables = {
        width: _table(list(vectors), width) for width, vectors in sorted(rows.items()) if vectors
    }
    shape = EditShape(points, m, tuple((width, len(table)) for width, table in tables.items()))
    codes, factors = _longer(code, m).astype(np.int32), _longer(number, m).astype(np.float32)
    return StepEdits(shape, codes, factors, tables, first, count)


def _bucket(n: int, sizes: Sequence[int]) -> int:
    return next((size for size in sizes if size >= n), 1 << max(0, n - 1).bit_length())


def _table(vectors: Sequence[bytes], width: int) -> Floats:
    table = np.zeros((_bucket(len(vectors), _FLOATS), width), np.float32)
    for i, vector in enumerate(vectors):
        table[i] = np.frombuffer(vector, np.float32)
    return table


def _longer(rows: Sequence[tuple[float, ...]], n: int) -> NDArray[np.float64]:
    made = np.zeros((n, 8))
    made[: len(rows)] = np.array(rows).reshape(-1, 8)
    return made
