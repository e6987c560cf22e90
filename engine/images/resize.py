"""How a picture becomes the numbers that a tower reads."""

from typing import Literal

import msgspec

Filter = Literal["bilinear", "bicubic", "lanczos"]
Colour = tuple[float, float, float]


class Rule(msgspec.Struct, frozen=True):
    """A family's way from uint8 pixels to float32: (value / 255 - mean) / std, per channel.

    `fill` is the colour of padding before that.
    """

    filter: Filter
    mean: Colour
    std: Colour
    fill: tuple[int, int, int] = (0, 0, 0)
