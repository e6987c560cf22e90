"""A step on its devices against the host: which launch is the first that deviates.

The plan is the one that answers run. What its launches leave in memory is copied out, and the host
computes each of these results from those before it as the devices have them, so that an error shows
where it is made and nowhere else.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.backends.host.backend import HostBackend
from engine.device.backend import Bytes, Location
from engine.errors import BadSetting, Cancelled, CannotProbe
from engine.graph.arrays import decode, encode, raw_array
from engine.graph.op import VIEW_OPS, Op
from engine.graph.ops.attention import FusedAttention
from engine.graph.ops.rows import SetRows
from engine.graph.tensor import Role, Tensor
from engine.inside.observed import CaughtStep, is_too_large, observed
from engine.inside.strip import layer_of
from engine.protocol import Compare, Compared, ComparedResult, Generate, Phase, Progress
from engine.runner.loading import LoadedModel
from engine.runner.pictures.items import Item
from engine.runner.prompt import make_prompt
from engine.runner.sequence import Sequenced
from engine.runner.stepper import StartedStep
from engine.scheduler.probes import Probed
from engine.scheduler.record import Values
from engine.selftest.case import (
    ATTENTION_MOST,
    F32_MOST,
    MATMUL_MOST,
    QUANTIZED_KV_MOST,
    SOFTMAX_MOST,
)
from engine.selftest.case import most_of as most_of_type
from engine.selftest.check import compare as compare_numbers

PRODUCT_MOST = 3 * MATMUL_MOST
"""Of a single token, where one channel may be a hundred times as large as the others."""

QUANTIZED_CACHE_MOST = 1e-4
"""Rows in blocks: where an element is nearly between two levels, rounding takes either."""


def most_of(node: Tensor) -> float:
    """The tolerance of one node of a graph."""
    match node.op:
        case Op.MATMUL | Op.MATMUL_ID:
            return PRODUCT_MOST
        case Op.ATTENTION:
            quantized = FusedAttention.of(node).k.fmt.quantized
            return QUANTIZED_KV_MOST if quantized else ATTENTION_MOST
        case Op.SOFTMAX:
            return SOFTMAX_MOST
        case Op.SET_ROWS | Op.COPY | Op.COPY_INTO if node.fmt.quantized:
            return QUANTIZED_CACHE_MOST
        case _:
            return max(F32_MOST, most_of_type(node.fmt))


Numbers = NDArray[np.generic]


class HostStep:
    """Values of one graph on the host: `weight` gives a leaf's blocks, `caches` are bytes that live
    from step to step. Every result has memory of its own, so that each can be looked at.
    """

    def __init__(
        self, weight: Callable[[Tensor], Bytes], inputs: Values, caches: dict[Tensor, Bytes]
    ) -> None:
        self._host = HostBackend()
        self._weight, self._inputs, self._caches = weight, inputs, caches
        self._places: dict[Tensor, Location] = {}

    def run(self, node: Tensor) -> None:
        """Compute one node from the values as they are."""
        self._host.compile([node], self._where).run()

    def values(self, tensor: Tensor) -> Numbers:
        """Values as float32 or integers, in the reversed shape."""
        return decode(self._raw(tensor), tensor.fmt)

    def put(self, tensor: Tensor, values: Numbers) -> None:
        """Other values from now on, in the reversed shape."""
        self._raw(tensor)[...] = encode(values, tensor.fmt)

    def _raw(self, tensor: Tensor) -> Numbers:
        at = self._where(tensor.storage)
        return raw_array(at.buffer.view(tensor.offset, tensor.nbytes), tensor)

    def _where(self, storage: Tensor) -> Location:
        if storage not in self._places:
            self._places[storage] = self._host.map(self._bytes(storage))
        return self._places[storage]

    def _bytes(self, storage: Tensor) -> Bytes:
        if storage.role is Role.WEIGHT:
            return self._weight(storage)
        if storage.role is Role.INPUT:
            values = np.ascontiguousarray(self._inputs[storage])
            return values.reshape(-1).view(np.uint8).copy()
        if storage.role is Role.CACHE:
            return self._caches.setdefault(storage, np.zeros(storage.nbytes, np.uint8))
        return np.zeros(storage.nbytes, np.uint8)


MOST_TOKENS = 32
"""Of the prompt's step: as many as a bucket has, so that nothing is padding."""


def compare(
    model: LoadedModel,
    sequence: Sequenced,
    request: Compare,
    cancelled: Callable[[], bool],
    claim: Callable[[Sequence[Item]], None] = lambda _: None,
) -> Iterator[Progress | Compared | None]:
    """Yields how far it is, then the reply, and None where others may compute meanwhile. The
    sequence is empty afterwards; `claim` receives what it is to hold.

    Raises `BadSetting` for pictures or too short a text, `CannotProbe`, `Cancelled`, and as
    `make_prompt`.
    """
    whole = Generate(0, messages=request.messages, prompt=request.prompt)
    items = make_prompt(model.tokenizer, model.template, whole, sequence.n_ctx, sequence.viewer)
    tokens = [item for item in items.items[: MOST_TOKENS + 1] if isinstance(item, int)]
    if len(tokens) < min(len(items.items), MOST_TOKENS + 1):
        raise BadSetting("prompt", "pictures", "text only, to compare operations")
    if len(tokens) < 2:
        raise BadSetting("prompt", f"{len(tokens)} token", "at least two tokens")
    claim(tokens)
    comparing, rows = _Comparing(model, sequence, cancelled), list[ComparedResult]()
    sequence.reuse(())
    try:
        n, prompt = comparing.fit(tokens[:-1])
        for row in comparing.rows("prefill", *prompt):
            rows.append(row)
            yield None
        yield Progress(request.id, "score", 1, 2)
        for row in comparing.rows("decode", *observed(sequence, tokens[n:][:1])):
            rows.append(row)
            yield None
        yield Progress(request.id, "score", 2, 2)
    finally:
        sequence.stepper.end_probes()
        sequence.reuse(())
    first = next((i for i, row in enumerate(rows) if row.problem), None)
    yield Compared(request.id, rows, first, n)


@dataclass
class _Comparing:
    """`caches` are the host's copies of what the devices' caches hold."""

    model: LoadedModel
    sequence: Sequenced
    cancelled: Callable[[], bool]
    caches: dict[Tensor, np.ndarray] = field(default_factory=dict)

    def fit(self, tokens: Sequence[int]) -> tuple[int, tuple[CaughtStep, StartedStep]]:
        """The largest power of two of tokens whose results the probes have room for, and the step
        that read them.
        """
        n = 1 << (len(tokens).bit_length() - 1)
        while True:
            try:
                return n, observed(self.sequence, tokens[:n])
            except CannotProbe as refused:
                if not is_too_large(refused, n):
                    raise
            self.sequence.reuse(())
            n //= 2

    def rows(self, phase: Phase, caught: CaughtStep, step: StartedStep) -> Iterator[ComparedResult]:
        """Compute everything once more on the host; nothing was started between the step and the
        first of them.
        """
        host = HostStep(self.model.opened.data, caught.inputs, self.caches)
        yield from _Walk(self, phase, caught, step.plan.probed(), host).rows()

    def heed(self) -> None:
        if self.cancelled():
            raise Cancelled("the comparison")


@dataclass
class _Span:
    """The nodes between a result and the known results before it."""

    nodes: list[Tensor] = field(default_factory=list)

    @property
    def most(self) -> float:
        return sum(most_of(node) for node in self.nodes)


class _Walk:
    """The nodes in order on the host, each result replaced by the device's once compared."""

    def __init__(
        self,
        comparing: _Comparing,
        phase: Phase,
        caught: CaughtStep,
        found: Sequence[Probed],
        host: HostStep,
    ) -> None:
        self._comparing, self._phase, self._host = comparing, phase, host
        self._graph = caught.made.graph
        self._found = {one.node.storage: one for one in found}
        self._known: set[Tensor] = set()
        self._spans: dict[Tensor, _Span] = {}
        self._launches: dict[Tensor, list[tuple[str, str]]] = {}
        for part in caught.made.splits:
            for lowered, computed in part.computes.items():
                for node in computed:
                    launches = self._launches.setdefault(node, [])
                    if lowered.op is not Op.RESULT:
                        launches.append((part.split.backend.name, str(lowered.op)))

    def rows(self) -> Iterator[ComparedResult]:
        for node in self._graph.nodes:
            if node.op in VIEW_OPS:
                continue
            self._comparing.heed()
            self._host.run(node)
            span = self._spans[node.storage] = self._span(node)
            if node.op is Op.SET_ROWS and node.storage.role is Role.CACHE:
                yield self._cache(node, span)
            elif node.storage in self._found:
                yield self._result(node, span, self._found[node.storage])

    def _span(self, node: Tensor) -> _Span:
        span = _Span()
        for source in node.src:
            if source is not None and source.storage not in self._known:
                held = self._spans.get(source.storage)
                span.nodes += [one for one in (held.nodes if held else ()) if one not in span.nodes]
        span.nodes.append(node)
        return span

    def _result(self, node: Tensor, span: _Span, one: Probed) -> ComparedResult:
        got, wanted = one.values, self._host.values(one.node)
        base = self._base(node)
        if base is None:
            problem, error = compare_numbers(got, wanted, span.most)
        else:
            before = self._host.values(base).reshape(got.shape)
            added = np.subtract(got, before), np.subtract(wanted, before)
            problem, error = compare_numbers(*added, span.most)
        self._host.put(one.node, got)
        self._known.add(node.storage)
        return self._row(*one.key, span, error, problem)

    def _base(self, node: Tensor) -> Tensor | None:
        """The known one of two that are added: what a residual stream was before."""
        if node.op is not Op.ADD:
            return None
        known = [s for s in node.src if s is not None and s.storage in self._known]
        same = [s for s in known if s.nelements == node.nelements]
        return same[0] if len(known) == len(same) == 1 else None

    def _cache(self, node: Tensor, span: _Span) -> ComparedResult:
        """Rows that the step wrote into a cache, which is then as the device has it."""
        ids = self._host.values(SetRows.of(node).ids).reshape(-1)
        leaf = node.storage
        at = self._comparing.sequence.stepper.planner.placed[leaf]
        data = at.buffer.read(at.offset, leaf.nbytes)
        wanted = self._host.values(leaf)[0, 0, ids]
        got = decode(raw_array(data, leaf), leaf.fmt)[0, 0, ids]
        problem, error = compare_numbers(got, wanted, span.most)
        self._comparing.caches[leaf][...] = data
        self._known.add(leaf)
        return self._row(leaf.name, 0, span, error, problem)

    def _row(
        self, name: str, occurrence: int, span: _Span, error: float, problem: str
    ) -> ComparedResult:
        launches = [one for node in span.nodes for one in self._launches.get(node, ())]
        return ComparedResult(
            self._phase,
            name,
            occurrence,
            layer_of(name),
            launches[-1][0] if launches else "",
            list(dict.fromkeys(str(node.op) for node in span.nodes)),
            list(dict.fromkeys(launch for _, launch in launches)),
            error,
            span.most,
            problem,
        )
