"""Tables of cosines and sines, made once a step on the host in float64 (RoPE, Su et al. 2021).

YaRN follows Peng et al. 2023: frequencies are interpolated by a ramp over the dimensions.
"""

from dataclasses import dataclass
from math import ceil, floor, log, pi

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class RopeParams:
    """How positions become angles. `scale` multiplies frequencies (1 / scaling factor)."""

    n_rot: int
    base: float
    neox: bool
    scale: float = 1.0
    factors: tuple[float, ...] | None = None
    yarn: "Yarn | None" = None

    def table(self, positions: NDArray[np.int32]) -> NDArray[np.float32]:
        """[T, n_rot]: for each position n_rot/2 cosines, then n_rot/2 sines, with magnitude."""
        magnitude = 1.0
        if self.yarn is not None:
            magnitude = self.yarn.attention * (1 + 0.1 * log(1 / self.scale))
        return (magnitude * self._rotation(positions)).astype(np.float32)

    def turn(self, distances: NDArray[np.int32]) -> NDArray[np.float32]:
        """As `table`, but only the rotation: what moves keys that already carry a magnitude."""
        return self._rotation(distances).astype(np.float32)

    def _rotation(self, positions: NDArray[np.int32]) -> NDArray[np.float64]:
        pair = np.arange(self.n_rot // 2, dtype=np.float64)
        frequency = self.base ** (-2.0 * pair / self.n_rot)
        if self.factors is not None:
            frequency = frequency / np.asarray(self.factors, np.float64)
        if self.yarn is None:
            frequency = frequency * self.scale
        else:
            ramp = self.yarn.ramp(pair, self.n_rot, self.base) * self.yarn.extrapolation
            frequency = frequency * (self.scale * (1 - ramp) + ramp)
        angle = positions.astype(np.float64)[:, None] * frequency
        return np.hstack([np.cos(angle), np.sin(angle)])


@dataclass(frozen=True)
class Yarn:
    """YaRN's constants; `context` is the length the model was trained for before scaling."""

    context: int
    extrapolation: float = 1.0
    attention: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0

    def ramp(self, pair: NDArray[np.float64], n_rot: int, base: float) -> NDArray[np.float64]:
        """1 where a pair turns often enough to be extrapolated, 0 where it is interpolated."""

        def correction(turns: float) -> float:
            return n_rot * log(self.context / (turns * 2 * pi)) / (2 * log(base))

        low = max(0, floor(correction(self.beta_fast)))
        high = min(n_rot - 1, ceil(correction(self.beta_slow)))
        return 1 - np.clip((pair - low) / max(0.001, high - low), 0, 1)
