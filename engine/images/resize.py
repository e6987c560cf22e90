"""How a picture becomes the numbers that a tower reads."""

from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from engine.images.decode import Picture
from engine.images.patches import Floats
from engine.images.plan import View

Filter = Literal["bilinear", "bicubic", "lanczos"]
Colour = tuple[float, float, float]
Bytes = NDArray[np.uint8]


class Rule(msgspec.Struct, frozen=True):
    """A family's way from uint8 pixels to float32: (value / 255 - mean) / std, per channel.

    `fill` is the colour of padding before that.
    """

    filter: Filter
    mean: Colour
    std: Colour
    fill: tuple[int, int, int] = (0, 0, 0)


class Resizer:
    """Makes a picture's views. What tiles are cut from is resized once while they come in a row."""

    def __init__(self, picture: Picture, rule: Rule) -> None:
        self._picture, self._rule = picture, rule
        self._resized: tuple[object, Bytes] | None = None

    def pixels(self, view: View) -> Floats:
        """f32 [h, w, 3] of one view: resized by Pillow on uint8, antialiased; then normalised."""
        return normalised(self.shown(view), self._rule)

    def shown(self, view: View) -> Bytes:
        """u8 [h, w, 3]: what the tower will see, to be shown."""
        source = self._steps(view)
        canvas = np.empty((view.size.h, view.size.w, 3), np.uint8)
        canvas[:] = self._rule.fill
        x, y = view.offset
        h, w = source.shape[:2]
        left, top = max(x, 0), max(y, 0)
        right, bottom = min(x + w, view.size.w), min(y + h, view.size.h)
        canvas[top:bottom, left:right] = source[top - y : bottom - y, left - x : right - x]
        return canvas

    def _steps(self, view: View) -> Bytes:
        """The picture after all steps of a view; the last result is kept."""
        key = (view.margin, view.steps)
        if self._resized is None or self._resized[0] != key:
            self._resized = None
            image = Image.fromarray(_with_margin(self._picture.rgb, view.margin, self._rule.fill))
            for step in view.steps:
                image = image.resize(step, Image.Resampling[self._rule.filter.upper()])
            self._resized = key, np.asarray(image)
        return self._resized[1]


def _with_margin(
    rgb: Bytes, margin: tuple[int, int, int, int], fill: tuple[int, int, int]
) -> Bytes:
    left, top, right, bottom = margin
    if not any(margin):
        return rgb
    h, w, _ = rgb.shape
    canvas = np.empty((top + h + bottom, left + w + right, 3), np.uint8)
    canvas[:] = fill
    canvas[top : top + h, left : left + w] = rgb
    return canvas


def normalised(rgb: Bytes, rule: Rule) -> Floats:
    """u8 [h, w, 3] -> f32 [h, w, 3]."""
    levels = np.arange(256)[:, None] / 255
    table = ((levels - rule.mean) / rule.std).astype(np.float32)
    return np.stack([table[:, c][rgb[:, :, c]] for c in range(3)], axis=-1)
