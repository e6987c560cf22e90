"""Numbers as colours: look-up tables from the theme, and an image made with one."""

import numpy as np
from numpy.typing import NDArray

from app.theme.theme import tokens
from app.theme.tokens import DEVICES

Floats = NDArray[np.floating]
SHADES = 255  # an odd number: zero has the one in the middle
Image = NDArray[np.uint8]
_ORANGE = DEVICES[1]


def sequential() -> Image:
    """[SHADES, 3]: from the panel over the accent to the text's colour, always farther from it."""
    now = tokens()
    return _between(now.panel, now.accent, now.text)


def diverging() -> Image:
    """[SHADES, 3]: the accent for what is negative, orange for positive, the panel for zero."""
    now = tokens()
    dark = "#000000" if not now.dark else "#FFFFFF"
    return _between(_half(now.accent, dark), now.accent, now.panel, _ORANGE, _half(_ORANGE, dark))


def colourised(values: Floats, low: float, high: float, table: Image) -> Image:
    """uint8 [rows, columns, 4] of finite values between two levels; others are in `bad`."""
    span = (high - low) or 1.0
    with np.errstate(invalid="ignore"):
        share = (values.astype(np.float64) - low) * ((SHADES - 1) / span)
    finite = np.isfinite(values)
    place = np.clip(np.where(finite, share, 0), 0, SHADES - 1)
    image = np.full((*values.shape, 4), 255, np.uint8)
    image[..., :3] = table[np.rint(place).astype(np.uint8)]
    image[~finite, :3] = _channels(tokens().bad)
    return image


def _between(*stops: str) -> Image:
    places = np.linspace(0, SHADES - 1, len(stops))
    channels = np.array([_channels(stop) for stop in stops])
    made = [np.interp(np.arange(SHADES), places, channels[:, c]) for c in range(3)]
    table: Image = np.rint(np.stack(made, axis=1)).astype(np.uint8)
    return table


def _half(colour: str, other: str) -> str:
    pairs = zip(_channels(colour), _channels(other), strict=True)
    return "#" + "".join(f"{(a + b) // 2:02X}" for a, b in pairs)


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))
