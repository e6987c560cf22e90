"""A quantisation against its base: how predictions differ, where they drift, and whose fault it is.

Chunks and estimators follow llama.cpp's llama-perplexity --kl-divergence.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from engine.errors import BadSetting, Cancelled, NoMem
from engine.gguf.dequantize import dequantize
from engine.gguf.formats import Q8_0, by_name
from engine.gguf.reader import GGUFFile, open_gguf
from engine.inside.texts import by_token
from engine.laboratory.estimates import SCRATCH, CodedRows, Estimator, coded
from engine.laboratory.imatrix import InputSquares
from engine.laboratory.rows import RESIDUAL, read_parts
from engine.laboratory.swaps import (
    WeightSwap,
    as_format,
    output_error,
    relative_error,
    type_size,
)
from engine.memory.pools import limits_kept
from engine.protocol import (
    LayerDrift,
    MeasureQuality,
    Progress,
    QualityEstimates,
    QualityMeasured,
    StageName,
    TensorLoss,
)
from engine.runner.batch import MAX_BATCH
from engine.runner.loading import LoadedModel, load_model, name_of, names_apart
from engine.runner.perplexity import as_evaluated, chunked
from engine.scheduler.probes import Probes
from engine.units import MIB

Chunks = NDArray[np.int32]
Ints = NDArray[np.int32]
Floats = NDArray[np.float32]
Rows = dict[int, Floats]
Send = Callable[[Progress], None]
HELD = 2048 * MIB
"""Bytes of the base's log-probabilities that are kept while another model is open."""
WORD = 320
"""Bytes of a tokenizer for each token, as measured: texts, indices and merges."""
OTHER = 8 * MIB
"""Bytes besides, as measured: the text, its tokens, objects and heaps of libraries."""
TAKEN, QUANTISED = 10, 11
"""Bytes of each weight of a tensor that is swapped, as measured: in float32 as it was and as it is,
as it is written, and its blocks if they are made here.
"""
DRIFT_CHUNKS, FIRST = 4, 4
"""Chunks that drift is measured over, and the tokens at the start of each that are counted apart,
as massive activations there hide the rest."""


def measure_quality(
    request: MeasureQuality, send: Send, cancelled: Callable[[], bool]
) -> QualityMeasured:
    """Compare two models, or one with some tensors swapped. Nothing is open afterwards. Raises
    `BadSetting`, `Cancelled`, `NotSupported`, and as `load_model`.
    """
    if not request.path and not request.swaps:
        raise BadSetting("what-if", None, "a file to compare with, or tensors to swap")
    measurement = _Measurement(request, send, cancelled)
    if request.swaps:
        return measurement.swapped()
    if request.in_turn is not True:
        try:
            return measurement.both()
        except NoMem:
            if request.in_turn is False:
                raise
    return measurement.in_turn()


@dataclass
class _Measurement:
    request: MeasureQuality
    send: Send
    cancelled: Callable[[], bool]
    estimator: Estimator = field(default_factory=Estimator)
    drift: "_Drift" = field(default_factory=lambda: _Drift())
    done: int = 0
    total: int = 0
    memory: int = 0
    _open: int = 0

    @contextmanager
    def open(self, path: str, plain: bool = False) -> Iterator[LoadedModel]:
        """A model; `plain` without prepared weights, whose file must not be written to."""
        options = replace(self.request.options, ctx=self.request.n_ctx, parallel=1)
        if plain:
            options = replace(options, prepared=0)

        def progress(stage: StageName, done: int, total: int) -> None:
            self.send(Progress(self.request.id, stage, done, total))

        with limits_kept():
            model = load_model(path, options, progress, self.cancelled)
        with closing(model):
            taken = model_memory(model, self.request.n_ctx)
            self._open += taken
            self.memory = max(self.memory, self._open + SCRATCH + OTHER)
            yield model
            self._open -= taken

    def both(self) -> QualityMeasured:
        """With both models open."""
        with ExitStack() as stack:
            base, model = (
                stack.enter_context(self.open(path))
                for path in (self.request.base, self.request.path)
            )
            chunks = self._chunks(base)
            _check_same(_shape(base), _shape(model))
            self.total = len(chunks)
            for i, chunk in enumerate(chunks):
                evaluated = as_evaluated(base.tokenizer, chunk)
                self._score_both(base, model, evaluated, chunk)
                self._tick()
                if self.request.drift and i < DRIFT_CHUNKS:
                    self.drift.add(_layer_rows(base, evaluated), _layer_rows(model, evaluated))
            device = base.device.name
            names = names_apart(model.file, base.file)
        return self._finished(names, device, len(chunks), False)

    def _score_both(
        self, base: LoadedModel, model: LoadedModel, evaluated: Sequence[int], chunk: Ints
    ) -> None:
        """Score a chunk; the logits of both models are dropped afterwards."""
        half = self.request.n_ctx // 2
        pairs = zip(
            base.stepper.all_logits(evaluated, half),
            model.stepper.all_logits(evaluated, half),
            strict=True,
        )
        for (start, p), (_, q) in pairs:
            n = min(len(p), len(chunk) - 1 - start)
            rows = coded(p[:n]) if self.request.like_llama else p[:n]
            if n > 0:
                self.estimator.add(rows, q[:n], chunk[start + 1 : start + 1 + n].tolist())

    def in_turn(self) -> QualityMeasured:
        """With one model open at a time: the base's log-probabilities of a block of chunks are kept
        in 16 bits.
        """
        self.estimator, self.drift = Estimator(), _Drift()
        self.done = done = self.memory = self._open = 0
        chunks: Chunks | None = None
        while chunks is None or done < len(chunks):
            kept: list[list[CodedRows]] = []
            layers: list[Rows] = []
            with self.open(self.request.base) as base:
                if chunks is None:
                    chunks = self._chunks(base)
                    self.total = 2 * len(chunks)
                scored = self.request.n_ctx - 1 - self.request.n_ctx // 2
                block = chunks[done : done + max(1, HELD // (2 * scored * base.built.n_vocab))]
                for i, chunk in enumerate(block, done):
                    evaluated = as_evaluated(base.tokenizer, chunk)
                    kept.append(self._coded(base, chunk))
                    self._tick()
                    if self.request.drift and i < DRIFT_CHUNKS:
                        layers.append(_layer_rows(base, evaluated))
                device, base_file = base.device.name, base.file
                shape = _shape(base)
            held = sum(one.nbytes for rows in kept for one in rows)
            held += sum(one.nbytes for rows in layers for one in rows.values())
            self._open += held
            with self.open(self.request.path) as model:
                _check_same(shape, _shape(model))
                for i, (chunk, rows) in enumerate(zip(block, kept, strict=True)):
                    evaluated = as_evaluated(model.tokenizer, chunk)
                    self._score(model, chunk, rows)
                    self._tick()
                    if i < len(layers):
                        self.drift.add(layers[i], _layer_rows(model, evaluated))
                names = names_apart(model.file, base_file)
            done += len(block)
            self._open -= held
        return self._finished(names, device, len(chunks), True)

    def swapped(self) -> QualityMeasured:
        """The base with some of its tensors swapped."""
        request = self.request
        with self.open(request.base, plain=True) as base, _opened(request.path) as other:
            swap = WeightSwap(base)
            losses = []
            chosen = [(name, one.type) for one in request.swaps for name in swap.named(one.pattern)]
            chunks = self._chunks(base)
            self.total = 2 * len(chunks)
            reference = self._reference(base, chunks)
            self._count(reference, swap, dict(chosen), QUANTISED)
            for name, kind in dict(chosen).items():
                values = swap.original(name)
                changed = as_format(values, kind) if kind else _values(other, name, values)
                taken = other.tensors[name].fmt if other is not None and not kind else by_name(kind)
                error = relative_error(values, changed)
                size = type_size(taken, values.size)
                losses.append(TensorLoss(name, taken.name, size, error, error))
                swap.put(name, changed)
            for chunk, rows in zip(chunks, reference, strict=True):
                self._score(base, chunk, rows)
                self._tick()
            device, name = base.device.name, name_of(base.file)
        losses.sort(key=lambda one: -one.nmse)
        found = self._finished((name, name), device, len(chunks), False)
        return msgspec.structs.replace(found, tensors=losses)

    def _finished(
        self, names: tuple[str, str], device: str, n_chunks: int, in_turn: bool
    ) -> QualityMeasured:
        request = self.request
        estimates: QualityEstimates = self.estimator.estimates
        losses: list[TensorLoss] = []
        all_kld: float | None = None
        if request.guilty and not request.swaps:
            losses, all_kld = self._guilty()
        return QualityMeasured(
            request.id,
            *names,
            device,
            n_chunks,
            request.n_ctx,
            in_turn,
            estimates,
            self.drift.layers,
            losses,
            all_kld,
            self.memory,
        )

    def _guilty(self) -> tuple[list[TensorLoss], float]:
        """Tensors by what they lose: all to first order, the worst exactly."""
        request = self.request
        with self.open(request.base, plain=True) as base, open_gguf(request.path) as other:
            swap, chunks = WeightSwap(base), self._chunks(base)
            squares = InputSquares(base)
            for chunk in chunks:
                squares.add_chunk(as_evaluated(base.tokenizer, chunk))
                self._heed()
            losses = sorted(_first_order(base, other, swap, squares), key=lambda x: -x.output_nmse)
            worst = losses if request.guilty < 0 else losses[: request.guilty]
            self.done, self.total = 0, (2 * len(worst) + 2) * len(chunks)
            reference = self._reference(base, chunks)
            self._count(reference, swap, (one.name for one in losses), TAKEN)

            def changed(name: str) -> None:
                swap.put(name, _values(other, name, swap.original(name)))

            def kld() -> float:
                self.estimator = Estimator()
                for chunk, rows in zip(chunks, reference, strict=True):
                    self._score(base, chunk, rows)
                    self._tick()
                return self.estimator.kld

            alone = {}
            for one in worst:
                changed(one.name)
                alone[one.name] = kld()
                swap.restore(one.name)
            for one in losses:
                changed(one.name)
            whole, exact = kld(), []
            for one in worst:
                swap.restore(one.name)
                without = kld()
                changed(one.name)
                n = base.file.tensors[one.name]
                more = (type_size(Q8_0, n.rows * n.shape[0]) - one.size) / MIB
                saved = (whole - without) / more if more > 0 else None
                change = msgspec.structs.replace
                exact.append(change(one, alone=alone[one.name], without=without, saved=saved))
        exact.sort(key=lambda one: one.without if one.without is not None else 0.0)
        return [*exact, *losses[len(worst) :]], whole

    def _count(
        self, kept: list[list[CodedRows]], swap: WeightSwap, names: Iterable[str], each: int
    ) -> None:
        """Count the memory of kept log-probabilities, and of the largest tensor to be swapped."""
        self._open += sum(one.nbytes for rows in kept for one in rows)
        largest = max((swap.size(name) for name in names), default=0)
        self.memory = max(self.memory, self._open + max(SCRATCH, each * largest) + OTHER)

    def _reference(self, base: LoadedModel, chunks: Chunks) -> list[list[CodedRows]]:
        scored = self.request.n_ctx - 1 - self.request.n_ctx // 2
        most = max(1, HELD // (2 * scored * base.built.n_vocab))
        if len(chunks) > most:
            raise BadSetting("chunks", len(chunks), f"at most {most} to swap tensors")
        found = []
        for chunk in chunks:
            found.append(self._coded(base, chunk))
            self._tick()
        return found

    def _coded(self, base: LoadedModel, chunk: Chunks) -> list[CodedRows]:
        """The base's log-probabilities of a chunk's scored positions."""
        start, found = self.request.n_ctx // 2 + 1, []
        for rows in _scored(base, as_evaluated(base.tokenizer, chunk)):
            following = chunk[start : start + len(rows)].tolist()
            found.append(coded(rows, () if self.request.like_llama else following))
            start += len(rows)
        return found

    def _score(self, model: LoadedModel, chunk: Chunks, kept: Sequence[CodedRows]) -> None:
        start = self.request.n_ctx // 2 + 1
        evaluated = as_evaluated(model.tokenizer, chunk)
        for p, q in zip(kept, _scored(model, evaluated), strict=True):
            self.estimator.add(p, q, chunk[start : start + len(q)].tolist())
            start += len(q)

    def _chunks(self, base: LoadedModel) -> Chunks:
        request = self.request
        chunks = chunked(base.stepper, base.tokenizer, request.text, request.n_ctx)
        if request.n_chunks is not None:
            if request.n_chunks < 1:
                raise BadSetting("chunks", request.n_chunks, "a number from 1 up")
            chunks = chunks[: request.n_chunks]
        return chunks

    def _tick(self) -> None:
        self.done += 1
        estimate = self.estimator.kld if self.estimator.has_any else None
        self.send(Progress(self.request.id, "score", self.done, self.total, estimate))
        self._heed()

    def _heed(self) -> None:
        if self.cancelled():
            raise Cancelled("the comparison")


def model_memory(model: LoadedModel, n_ctx: int) -> int:
    """Bytes that an open model takes while its predictions are estimated: what is allocated, the
    logits of a step and of the one before, if there is one, and its tokenizer.
    """
    most = model.stepper.most_logits
    rows = n_ctx // 2 if n_ctx // 2 <= most else 2 * most
    allocated = sum(one.size for one in model.dry.wanted())
    return allocated + 4 * rows * model.built.n_vocab + WORD * model.tokenizer.size


class _Drift:
    """Sums over tokens by layer: of squares of the difference, of both sides, and of products."""

    def __init__(self) -> None:
        self._sums: dict[int, NDArray[np.float64]] = {}  # [2, 4]: all tokens, the later ones

    def add(self, base: Rows, other: Rows) -> None:
        """Rows [T, E] of one chunk by layer, of both models."""
        for layer, ours in base.items():
            a, b = ours.astype(np.float64), other[layer].astype(np.float64)
            sums = self._sums.setdefault(layer, np.zeros((2, 4)))
            each = np.stack([((b - a) ** 2).sum(1), (a**2).sum(1), (b**2).sum(1), (a * b).sum(1)])
            sums[0] += each.sum(axis=1)
            sums[1] += each[:, FIRST:].sum(axis=1)

    @property
    def layers(self) -> list[LayerDrift]:
        """The drift so far."""
        found = []
        for layer, sums in sorted(self._sums.items()):
            numbers = []
            for off, ours, theirs, shared in sums:
                numbers += [off / max(ours, 1e-300), shared / max(np.sqrt(ours * theirs), 1e-300)]
            found.append(LayerDrift(layer, *(float(one) for one in numbers)))
        return found


def _layer_rows(model: LoadedModel, tokens: Sequence[int]) -> Rows:
    """Compute what leaves each layer, f32 [T, E]."""
    found: dict[int, list[Floats]] = {}
    stepper = model.stepper
    try:
        for _, step, _ in read_parts(stepper, tokens, Probes((RESIDUAL,)), MAX_BATCH):
            for one in step.probed():
                rows = by_token(one.values, one.node, step.axes)
                assert rows is not None
                found.setdefault(int(one.key.name.rpartition("-")[2]), []).append(rows.copy())
    finally:
        stepper.end_probes()
        stepper.forget(0)
    return {layer: np.concatenate(rows) for layer, rows in found.items()}


def _scored(model: LoadedModel, tokens: Sequence[int]) -> Iterator[Floats]:
    """Logits [n, V] of the positions that are scored, in parts."""
    end = len(tokens) - 1
    for start, logits in model.stepper.all_logits(tokens, len(tokens) // 2):
        if start < end:
            yield logits[: end - start]


def _shape(model: LoadedModel) -> tuple[int, int, int]:
    """Tokens, logits, and width of the model."""
    return model.tokenizer.size, model.built.n_vocab, model.built.n_layer


def _check_same(base: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    for what, ours, theirs in zip(("tokens", "logits", "layers"), base, other, strict=True):
        if ours != theirs:
            raise BadSetting("base", f"{ours} {what}", f"the {theirs} of the compared file")


@contextmanager
def _opened(path: str) -> Iterator[GGUFFile | None]:
    if not path:
        yield None
        return
    with open_gguf(path) as file:
        yield file


def _values(other: GGUFFile | None, name: str, values: Floats) -> Floats:
    """A tensor's weights in the compared file. Raises `BadSetting`."""
    if other is None:
        raise BadSetting("what-if", name, "a type: NAME=Q4_0, or a file to take it from")
    info = other.tensors.get(name)
    if info is None or (info.rows, info.shape[0]) != values.shape:
        theirs = "missing" if info is None else f"{info.rows} x {info.shape[0]}"
        expected = f"a file with it in {values.shape[0]} x {values.shape[1]}"
        raise BadSetting("what-if", f"{name} ({theirs})", expected)
    return dequantize(other.data(name), info.fmt)


def _first_order(
    base: LoadedModel, other: GGUFFile, swap: WeightSwap, squares: InputSquares
) -> Iterator[TensorLoss]:
    """The tensors of another type than the base's, with their first-order losses."""
    own = (name for t, name in base.built.sources.items() if t not in base.built.of_adapters)
    for name in dict.fromkeys(own):
        ours, theirs = base.file.tensors[name], other.tensors.get(name)
        if theirs is None or theirs.fmt is ours.fmt:
            continue
        swap.check(name)
        values = swap.original(name)
        changed = _values(other, name, values)
        mean = squares.means(name)
        error = relative_error(values, changed)
        output = error if mean is None else output_error(values, changed, mean)
        yield TensorLoss(name, theirs.fmt.name, theirs.nbytes, error, output)
