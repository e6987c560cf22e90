"""Sums over a set of texts, each in a bounded number of bytes and in a fixed order."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadSetting, NotSupported
from engine.laboratory.rows import RESIDUAL
from engine.layers.edits import NONE
from engine.models.build import BuiltModel
from engine.models.sites import EXPERTS
from engine.protocol import ProbeAt

Arrays = dict[str, NDArray[np.generic]]
Floats = NDArray[np.float32]
LOGITS, WEIGHTS = "ffn_moe_logits", "ffn_moe_weights"
_GATED = re.compile(r"ffn_(?:swiglu|swiglu_oai|geglu|gelu|relu_sqr)", re.ASCII)
MOST_PAIRED, STRONGEST, FIRST = 256, 16, 4
"""Experts that are counted in pairs at most; tokens of a neuron; tokens that are counted apart."""


class Piece(NamedTuple):
    """Tokens of a document from index `start` on, `label` numbers its class (-1: none)."""

    document: int
    start: int
    tokens: list[int]
    label: int = -1


class Collector(ABC):
    """Adds what steps give. `arrays` are all that it has by then, changed in place by `load`."""

    patterns: Sequence[str] = ()

    @abstractmethod
    def add(self, rows: Mapping[str, Floats], piece: Piece, start: int) -> None:
        """Rows [T, ...] of results by their names, of a piece's tokens from index `start` on."""

    @property
    @abstractmethod
    def arrays(self) -> Arrays:
        """Everything that was summed."""

    @property
    def nbytes(self) -> int:
        """Bytes of the sums."""
        return sum(one.nbytes for one in self.arrays.values())

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Continue from arrays of an earlier run. Raises `BadSetting` if they do not fit."""
        for name, own in self.arrays.items():
            held = arrays.get(name)
            if held is None or held.shape != own.shape or held.dtype != own.dtype:
                raise BadSetting("resume", name, "a recording of this model with these options")
            own[...] = held


class ExpertCounts(Collector):
    """How often experts are chosen, with which weight, and which of them together."""

    def __init__(self, built: BuiltModel) -> None:
        layers = built.results.layers(EXPERTS)
        if not layers:
            raise NotSupported(f"recording experts of {built.arch}")
        widths = [built.results.at(LOGITS, i) for i in layers]
        n = max((one[-1].width for one in widths if one), default=0)
        self.layers = layers
        self.patterns = (rf"{EXPERTS}-\d+", rf"{WEIGHTS}-\d+")
        self.counts = np.zeros((len(layers), n), np.int64)
        self.weights = np.zeros((len(layers), n))
        size = n if n <= MOST_PAIRED else 0
        self.pairs = np.zeros((len(layers), size, size), np.int64)

    def add(self, rows: Mapping[str, Floats], piece: Piece, start: int) -> None:
        """Add tokens; a pair of experts counts in both orders."""
        for i, layer in enumerate(self.layers):
            chosen = rows.get(f"{EXPERTS}-{layer}")
            if chosen is None:
                continue
            ids = chosen.astype(np.int64)
            np.add.at(self.counts[i], ids, 1)
            weights = rows.get(f"{WEIGHTS}-{layer}")
            if weights is not None:
                np.add.at(self.weights[i], ids, weights.reshape(ids.shape).astype(np.float64))
            for u in range(ids.shape[1] if self.pairs.size else 0):
                for v in range(ids.shape[1]):
                    if u != v:
                        np.add.at(self.pairs[i], (ids[:, u], ids[:, v]), 1)

    @property
    def arrays(self) -> Arrays:
        """By layer: i64 [L, X], f64 [L, X], i64 [L, X, X]."""
        return {"counts": self.counts, "weights": self.weights, "pairs": self.pairs}


class StrongestTokens(Collector):
    """The tokens at which each channel of the gated activation is largest."""

    def __init__(self, built: BuiltModel, layers: Sequence[int]) -> None:
        sites = [site for site in built.results.sites if _GATED.fullmatch(site)]
        self.names = [f"{site}-{i}" for i in layers for site in sites if built.results.at(site, i)]
        if not self.names:
            raise NotSupported(f"recording neurons of {built.arch}")
        self.layers = [int(name.rpartition("-")[2]) for name in self.names]
        found = [built.results.at(name.rpartition("-")[0], i) for name, i in self._places]
        shape = (len(self.names), max(one[-1].width for one in found), STRONGEST)
        self.patterns = tuple(re.escape(name) for name in self.names)
        self.values = np.full(shape, -np.inf, np.float32)
        self.documents, self.tokens = np.zeros(shape, np.uint32), np.zeros(shape, np.uint32)

    @property
    def _places(self) -> list[tuple[str, int]]:
        return [(name, int(name.rpartition("-")[2])) for name in self.names]

    def add(self, rows: Mapping[str, Floats], piece: Piece, start: int) -> None:
        """Channels none of whose values is among the largest by now are skipped."""
        for i, name in enumerate(self.names):
            found = rows.get(name)
            if found is None:
                continue
            some = np.flatnonzero(found.max(axis=0) > self.values[i, : found.shape[1], -1])
            if not some.size:
                continue
            values = np.concatenate([self.values[i, some], found[:, some].T], axis=1)
            order = np.argsort(-values, axis=1, kind="stable")[:, :STRONGEST]
            first = piece.start + start
            own = np.arange(first, first + len(found), dtype=np.uint32)
            tokens = np.concatenate(
                [self.tokens[i, some], np.broadcast_to(own, (some.size, own.size))], axis=1
            )
            document = np.full((some.size, own.size), piece.document, np.uint32)
            documents = np.concatenate([self.documents[i, some], document], axis=1)
            for held, new in (
                (self.values, values),
                (self.tokens, tokens),
                (self.documents, documents),
            ):
                held[i, some] = np.take_along_axis(new, order, axis=1)

    @property
    def arrays(self) -> Arrays:
        """[layers, F, 16], the largest first: values f32, documents and tokens u32."""
        return {"values": self.values, "documents": self.documents, "tokens": self.tokens}


class ResidualNorms(Collector):
    """Lengths of what leaves each layer: count, mean, M2 (sum of squared deviations) and largest,
    of the first four tokens of a document and of all others; and the largest one's channel.
    """

    patterns = (RESIDUAL,)

    def __init__(self, layers: Sequence[int]) -> None:
        self.layers = list(layers)
        self.sums = np.zeros((len(layers), 2, 4))
        self.channels = np.zeros((len(layers), 2), np.int32)

    def add(self, rows: Mapping[str, Floats], piece: Piece, start: int) -> None:
        """Merge means and M2 by Chan's formula."""
        cut = max(0, FIRST - piece.start - start)
        for i, layer in enumerate(self.layers):
            found = rows.get(f"l_out-{layer}")
            if found is None:
                continue
            for apart, part in enumerate((found[:cut], found[cut:])):
                if len(part):
                    self._merge(i, apart, part)

    def _merge(self, i: int, apart: int, rows: Floats) -> None:
        norms = np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1))
        n, mean, m2, most = self.sums[i, apart]
        k, own = len(norms), norms.mean()
        off = own - mean
        total = n + k
        at = int(norms.argmax())
        if norms[at] > most:
            self.channels[i, apart] = int(np.abs(rows[at]).argmax())
        self.sums[i, apart] = (
            total,
            mean + off * k / total,
            m2 + float(((norms - own) ** 2).sum()) + off**2 * n * k / total,
            max(most, float(norms[at])),
        )

    @property
    def arrays(self) -> Arrays:
        """f64 [L, 2, 4] and i32 [L, 2]."""
        return {"sums": self.sums, "channels": self.channels}


class ProbeRows(Collector):
    """Rows of what leaves each layer, f16 [rows, L, E], at the last token of each text, or their
    mean, or at all tokens; of a longer text than the context, of its beginning.
    """

    patterns = (RESIDUAL,)

    def __init__(self, built: BuiltModel, layers: Sequence[int], at: ProbeAt, n: int) -> None:
        """`n` rows at most."""
        self.layers, self.at = list(layers), at
        width = built.results.at("l_out", self.layers[0])[-1].width
        self.rows = np.zeros((n, len(self.layers), width), np.float16)
        self.about = np.zeros((n, 2), np.int32)  # document, label
        self.filled = np.zeros(1, np.int64)
        self._sums: NDArray[np.float64] = np.zeros((len(self.layers), width))

    def add(self, rows: Mapping[str, Floats], piece: Piece, start: int) -> None:
        """Add a part of a text; a mean is there with its last part."""
        if piece.start or piece.label < 0:
            return
        found = np.stack([rows[f"l_out-{layer}"] for layer in self.layers], axis=1)  # [T, L, E]
        ends = start + len(found) == len(piece.tokens)
        if self.at == "all":
            self._put(found, piece)
        elif self.at == "last" and ends:
            self._put(found[-1:], piece)
        elif self.at == "mean":
            self._sums = (self._sums if start else 0.0) + found.sum(axis=0, dtype=np.float64)
            if ends:
                self._put((self._sums / len(piece.tokens))[None].astype(np.float32), piece)

    def _put(self, rows: Floats, piece: Piece) -> None:
        at = int(self.filled[0])
        n = min(len(rows), len(self.rows) - at)
        self.rows[at : at + n] = rows[:n].astype(np.float16)
        self.about[at : at + n] = (piece.document, piece.label)
        self.filled[0] += n

    @property
    def arrays(self) -> Arrays:
        """Rows, their documents and labels, and how many there are."""
        return {"rows": self.rows, "about": self.about, "filled": self.filled}


def chosen_layers(built: BuiltModel, wanted: Sequence[int]) -> list[int]:
    """Layers of a request that leave a residual, all if none is named. Raises `BadSetting`."""
    have = built.results.layers("l_out")
    for layer in wanted:
        if layer not in have or layer == NONE:
            raise BadSetting("layers", layer, f"layers from {have[0]} to {have[-1]}")
    return sorted(set(wanted)) or have
