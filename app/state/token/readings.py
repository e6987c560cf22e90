"""The engine's data on a token, as arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.protocol import Attended, Lens

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]

Measure = Literal["entropy", "distance", "first"]


@dataclass(frozen=True)
class Guess:
    """A word that a layer would say, and its probability."""

    token: int
    text: str
    probability: float


class LensReading:
    """Rows are layers from the first on; the last is the model's own answer.

    `rank` counts from 1, `probability` is of the wanted word, `entropy` in bits.
    """

    def __init__(self, lens: Lens) -> None:
        rows = len(lens.layers)
        self.layers, self.wanted, self.kind = list(lens.layers), lens.wanted, lens.kind
        self._texts = lens.texts
        self._ids = np.frombuffer(lens.ids, "<i4").reshape(rows, -1)
        self._chances = _chances(lens.logp).reshape(rows, -1)
        self.rank: Ints = np.frombuffer(lens.rank, "<i4")
        self.probability: Floats = _chances(lens.wanted_logp)
        self.entropy: Floats = _bits(lens.entropy)

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def width(self) -> int:
        """How many words each row has."""
        return int(self._ids.shape[1])

    @property
    def wanted_text(self) -> str:
        return self._texts.get(self.wanted, "")

    def guesses(self, row: int) -> list[Guess]:
        """Return the predictions of a layer, the likeliest first."""
        pairs = zip(self._ids[row].tolist(), self._chances[row].tolist(), strict=True)
        return [Guess(token, self._texts.get(token, ""), chance) for token, chance in pairs]

    @cached_property
    def leads_from(self) -> int | None:
        """The row from which on the wanted word is first in all; None where it is not at the end.

        Where it led before and lost it again, that does not count.
        """
        behind = np.flatnonzero(self.rank > 1)
        first = int(behind[-1]) + 1 if len(behind) else 0
        return first if first < len(self) else None

    @cached_property
    def first_leads(self) -> int | None:
        """The first row in which the wanted word is first, though maybe not from there on."""
        leads = np.flatnonzero(self.rank == 1)
        return int(leads[0]) if len(leads) else None


class AttentionReading:
    """`layers` are those that attend to tokens; maps are [layers, heads]."""

    def __init__(self, attended: Attended) -> None:
        shape = len(attended.layers), attended.n_head
        self.layers, self.n_head, self.n_places = (
            list(attended.layers),
            attended.n_head,
            attended.n_places,
        )
        self.maps: dict[Measure, Floats] = {
            "entropy": _bits(attended.entropy).reshape(shape),
            "distance": np.frombuffer(attended.distance, "<f4").reshape(shape),
            "first": np.frombuffer(attended.first, "<f4").reshape(shape),
        }
        self.mean: Floats = np.frombuffer(attended.mean, "<f4")
        self.rows: dict[int, Floats] = {
            layer: np.frombuffer(data, "<f4").reshape(attended.n_head, -1)
            for layer, data in attended.rows.items()
        }

    def weights(self, layer: int | None = None, head: int | None = None) -> Floats | None:
        """How much is looked at each place: by a head, by a layer's heads on average, or by all;
        None where that layer's rows are not known.
        """
        if layer is None or layer not in self.layers:
            return self.mean
        rows = self.rows.get(layer)
        if rows is None:
            return None
        one = head is not None and 0 <= head < self.n_head
        weights: Floats = rows[head] if one else rows.mean(0)
        return weights

    def with_rows(self, rows: dict[int, Floats]) -> "AttentionReading":
        """Also the rows of these layers."""
        self.rows = self.rows | rows
        return self


def _chances(logp: bytes) -> Floats:
    """Probabilities; 0 for what is no number."""
    chances: Floats = np.nan_to_num(np.exp(np.frombuffer(logp, "<f4"))).clip(0, 1)
    return chances


def _bits(nats: bytes) -> Floats:
    """Entropies in bits."""
    bits: Floats = (np.frombuffer(nats, "<f4") / np.log(2)).astype(np.float32)
    return bits


def strongest(weights: Floats, most: int, least: float = 0.0) -> Sequence[int]:
    """The places with the largest weights, the largest first; none below `least`."""
    order = np.argsort(-weights, kind="stable")[:most]
    return [int(place) for place in order if weights[place] > least]
