"""Five bands from sure to surprised: a colour, and an underline for those who see none."""

from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QRectF

from app.theme.theme import tokens
from app.theme.tokens import mix
from app.widgets.plots.paper import DOTTED, SOLID, Paper

Measure = Literal["probability", "entropy", "speculation"]


@dataclass(frozen=True)
class Band:
    """`least` probability and `most` bits of entropy that still belong to it.

    Its background is `tone` over the canvas by `share`, its underline `width` pixels thick.
    """

    least: float
    most: float
    tone: str
    share: float
    width: float
    dotted: bool = False


BANDS = (
    Band(0.9, 0.5, "good", 0.0, 0),
    Band(0.6, 1.2, "good", 0.14, 1, dotted=True),
    Band(0.3, 2.0, "warn", 0.13, 1),
    Band(0.1, 3.0, "warn", 0.27, 2),
    Band(0.0, float("inf"), "bad", 0.32, 3),
)
LOOKS = (
    *BANDS,
    Band(0, 0, "accent", 0.24, 2),
    Band(0, 0, "good", 0.16, 1),
    Band(0, 0, "bad", 0.0, 1, dotted=True),
)
PLAIN, BY_FORM, BY_NGRAM, REFUSED = DRAFT_BANDS = (0, 5, 6, 7)
"""The looks of tokens by what was drafted in their places: nothing, that token, another one."""


def band_of_draft(source: str, drafted: str) -> int:
    """The look of a token, as of `TokenInfo`."""
    if not source:
        return PLAIN
    return REFUSED if drafted else BY_FORM if source == "form" else BY_NGRAM


def band_of_probability(probability: float) -> int:
    """The first band it reaches."""
    return next(n for n, band in enumerate(BANDS) if probability >= band.least)


def band_of_entropy(bits: float) -> int:
    """The first band it does not pass."""
    return next(n for n, band in enumerate(BANDS) if bits <= band.most)


def band_colour(band: int) -> str:
    """The background of a band's tokens."""
    wanted = LOOKS[band]
    return mix(getattr(tokens(), wanted.tone), tokens().canvas, wanted.share)


def draw_band(paper: Paper, area: QRectF, band: int, ground: bool = True) -> None:
    """The background of a band and the line below, or the line alone."""
    look = LOOKS[band]
    if look.share and ground:
        paper.fill(area, band_colour(band))
    if look.width:
        style = DOTTED if look.dotted else SOLID
        ends = [area.bottomLeft(), area.bottomRight()]
        paper.line(ends, getattr(tokens(), look.tone), look.width, style)
