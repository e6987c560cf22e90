"""An answer by a model that was changed: a layer or a head counts more or less."""

from typing import Literal

import msgspec

from engine.errors import BadSetting

ChangedPart = Literal["layer", "attention", "feed_forward"]
LARGEST_FACTOR = 2.0


class Change(msgspec.Struct, frozen=True):
    """How far a part of a layer counts: what it adds to the residual stream is multiplied by
    `factor`, from 0 (left out) over 1 (as it is) to 2. With a `head`, only what that head of its
    attention gives to the output matrix.
    """

    layer: int
    part: ChangedPart = "layer"
    head: int | None = None
    factor: float = 0.0

    def check(self) -> None:
        """Raise `BadSetting` for what no model has."""
        if not 0.0 <= self.factor <= LARGEST_FACTOR:  # also refuses NaN
            raise BadSetting("factor", self.factor, f"a number from 0 to {LARGEST_FACTOR:g}")
        if self.head is not None and self.part != "attention":
            raise BadSetting("part", self.part, "attention; other parts have no heads")
