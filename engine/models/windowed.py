"""Decoders some of whose layers see a window of the last tokens, the others all."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeVar

from engine.models.decoder import Decoder, DecoderParams, DecoderWeights
from engine.weights.params import COUNT, Meta, Range

WINDOW = Range(0, (1 << 31) - 1)


@dataclass(frozen=True, kw_only=True)
class WindowedParams(DecoderParams):
    """Which layers are windowed the file says by an array, or by a number n: all but each n-th, the
    last of n layers, or the first where `full_first`. 0: all, and so is `every` where it says
    nothing. A window of 0 is none.
    """

    every: ClassVar[int] = 0
    full_first: ClassVar[bool] = False

    window: Annotated[int, Meta("attention.sliding_window", WINDOW)] = 0
    pattern: Annotated[
        tuple[bool, ...] | int | None,
        Meta("attention.sliding_window_pattern", Range(0, COUNT.high), by_layer=True),
    ] = None

    def is_windowed(self, i: int) -> bool:
        """True if layer i sees a window."""
        if not self.window:
            return False
        if isinstance(self.pattern, tuple):
            return self.pattern[i]
        n = self.every if self.pattern is None else self.pattern
        return n == 0 or (i % n != 0 if self.full_first else i % n < n - 1)


P = TypeVar("P", bound=WindowedParams)
W_ = TypeVar("W_", bound=DecoderWeights)


class WindowedDecoder(Decoder[P, W_]):
    """Layers differ in what they see."""

    def window(self, i: int) -> int | None:
        return self.params.window if self.params.is_windowed(i) else None
