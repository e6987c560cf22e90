"""Tables of cosines and sines, made once per step on the host in float64 (RoPE, Su et al. 2021).

YaRN follows Peng et al. 2023: frequencies are interpolated by a ramp over the dimensions. Positions
in several dimensions follow Qwen2-VL (Wang et al. 2024) and Qwen3-VL, in ggml's terms.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor, log, pi
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.errors import ShapeError

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]
Mode = Literal["blocks", "interleaved", "vision"]


@dataclass(frozen=True)
class RopeParams:
    """How positions become angles. `scale` multiplies frequencies (1 / scaling factor).

    Positions are [T]; with `sections`, which need `neox`, they may be [4, T]: time, height, width
    and a fourth (where they are [T], all four are the same). `n_rot` channels of a head turn, and
    their cosines and sines are multiplied by `magnitude`.
    """

    n_rot: int
    base: float
    neox: bool
    scale: float = 1.0
    factors: tuple[float, ...] | None = None
    yarn: "Yarn | None" = None
    sections: "Sections | None" = None
    magnitude: float = 1.0

    def __post_init__(self) -> None:
        if self.sections is not None and not self.neox:
            raise ShapeError("rope", "sections need NeoX pairs", self.sections.sizes)

    def table(self, positions: Ints) -> NDArray[np.float32]:
        """[T, n_rot]: for each position n_rot/2 cosines, then n_rot/2 sines, with magnitude."""
        magnitude = self.magnitude * (1.0 if self.yarn is None else self.yarn.attention)
        if self.yarn is not None and self.yarn.extrapolation:
            magnitude *= 1 + 0.1 * log(1 / self.scale)
        return (magnitude * self._rotation(positions)).astype(np.float32)

    def turn(self, distances: Ints) -> NDArray[np.float32]:
        """Like `table`, but only the rotation: moves keys that already carry a magnitude."""
        return self._rotation(distances).astype(np.float32)

    def _rotation(self, positions: Ints) -> Floats:
        pair = np.arange(self.n_rot // 2)
        exponent, dim = pair, self.n_rot
        planes = np.zeros_like(pair)
        if self.sections is not None:
            planes = self.sections.planes(pair)
            if self.sections.mode == "vision":
                exponent, dim = self.sections.restarted(pair), self.n_rot // 2
        frequency = self.base ** (-2.0 * exponent / dim)
        if self.factors is not None:
            frequency = frequency / np.asarray(self.factors[: len(pair)], np.float64)
        if self.yarn is None:
            frequency = frequency * self.scale
        else:
            ramp = self.yarn.ramp(pair, dim, self.base) * self.yarn.extrapolation
            frequency = frequency * (self.scale * (1 - ramp) + ramp)
        n_tokens = positions.shape[-1]
        places = np.broadcast_to(positions, (4, n_tokens)).astype(np.float64)
        angle = places[planes].T * frequency  # [T, n_rot / 2]
        return np.hstack([np.cos(angle), np.sin(angle)])


def grid_table(
    first: Ints,
    second: Ints,
    head_dim: int,
    base: float = 1e4,
    *,
    staggered: bool = False,
    by_turns: bool = False,
) -> NDArray[np.float32]:
    """[T, head_dim], for `ops.rope`: 2-D rope of patches at the places `first` and `second` [T].

    The first head_dim/4 pairs turn by `first`, the others by `second`: pair j of either at the
    frequency base^(-4j/head_dim). `staggered`: the second's at base^(-(4j+2)/head_dim), so that
    all frequencies of a head differ (Pixtral). `by_turns`: pairs turn by one and the other in
    alternation (Kimi). (y, x) in Qwen2-VL and Pixtral, (x + 1, y + 1) in
    Llama 4, whose class row stands at (0, 0).
    """
    exponent = -4.0 * np.arange(head_dim // 4) / head_dim
    shift = 2.0 / head_dim if staggered else 0.0
    angle = np.hstack(
        [np.outer(first, base**exponent), np.outer(second, base ** (exponent - shift))]
    )
    if by_turns:
        angle = angle.reshape(len(first), 2, -1).swapaxes(1, 2).reshape(len(first), -1)
    return np.hstack([np.cos(angle), np.sin(angle)]).astype(np.float32)


@dataclass(frozen=True)
class Yarn:
    """YaRN's constants; `context` is the length the model was trained for before scaling."""

    context: int
    extrapolation: float = 1.0
    attention: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True

    def ramp(self, pair: NDArray[np.int_], n_rot: int, base: float) -> Floats:
        """1 where a pair turns often enough to be extrapolated, 0 where it is interpolated."""

        def correction(turns: float) -> float:
            return n_rot * log(self.context / (turns * 2 * pi)) / (2 * log(base))

        low, high = correction(self.beta_fast), correction(self.beta_slow)
        if self.truncate:
            low, high = floor(low), ceil(high)
        low, high = max(0.0, low), min(n_rot - 1.0, high)
        passed: Floats = np.clip((pair - low) / max(0.001, high - low), 0, 1)
        return 1 - passed


@dataclass(frozen=True)
class Sections:
    """Which of the four positions a pair turns by: `sizes` pairs for each, then again the first.

    `blocks`: one section after the other. `interleaved`: time, height, width by turns, as long as
    their sizes last, what is left by the fourth (transformers takes time there). `vision`: as
    `blocks`, but each section starts with the highest frequency, and all are those of half a head.
    """

    sizes: tuple[int, int, int, int]
    mode: Mode = "blocks"

    def __post_init__(self) -> None:
        if min(self.sizes) < 0 or sum(self.sizes) < 1:
            raise ShapeError("rope", "sections are not counts of pairs", self.sizes)

    def planes(self, pair: NDArray[np.int_]) -> NDArray[np.int_]:
        """0 to 3 for each pair: time, height, width, the fourth."""
        sector = pair % sum(self.sizes)
        if self.mode == "interleaved":
            turn = sector % 3
            return np.where(sector < 3 * np.array(self.sizes)[turn], turn, 3)
        return np.searchsorted(np.cumsum(self.sizes), sector, side="right")

    def restarted(self, pair: NDArray[np.int_]) -> NDArray[np.int_]:
        """Each pair's index in its own section."""
        sector = pair % sum(self.sizes)
        starts = np.cumsum((0, *self.sizes))
        own: NDArray[np.int_] = sector - starts[self.planes(pair)]
        return own


_BLOCK = 256


def step_table(params: RopeParams, positions: Ints, places: Ints | None) -> NDArray[np.float32]:
    """The table of a step's positions [T], or of its places [4, T] where sections turn by them."""
    if params.sections is None or places is None:
        return _rows(params, positions)
    if (places == places[0]).all():  # text alone
        return _rows(params, places[0])
    return params.table(places)


def _rows(params: RopeParams, positions: Ints) -> NDArray[np.float32]:
    """`params.table(positions)`, looked up: neighbours are requested one after the other."""
    if len(positions) == 1:  # a token of an answer: quickly
        block, row = divmod(int(positions[0]), _BLOCK)
        return _block(params, block)[row : row + 1]
    blocks = positions // _BLOCK
    rows = np.empty((len(positions), params.n_rot), np.float32)
    for block in set(blocks.tolist()):
        there = blocks == block
        rows[there] = _block(params, block)[positions[there] % _BLOCK]
    return rows


@lru_cache(maxsize=32)
def _block(params: RopeParams, block: int) -> NDArray[np.float32]:
    return params.table(np.arange(block * _BLOCK, (block + 1) * _BLOCK, dtype=np.int32))
