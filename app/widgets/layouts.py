"""Boxes: widgets below or beside each other."""

from enum import Enum
from typing import TypeVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QLayout, QVBoxLayout, QWidget

from app.theme.tokens import GRID


class Gap(Enum):
    """A gap that grows with the box, with its stretch factor."""

    STRETCH = 1
    SPARE = 0  # takes what no part with a factor takes


STRETCH, SPARE = Gap.STRETCH, Gap.SPARE
Part = (
    QWidget | QLayout | Gap | int | tuple[QWidget, Qt.AlignmentFlag] | tuple[QWidget | QLayout, int]
)
Margins = int | tuple[int, int, int, int]
Box = TypeVar("Box", QVBoxLayout, QHBoxLayout)


def vbox(
    *parts: Part, on: QWidget | None = None, margins: Margins = 0, spacing: int | None = None
) -> QVBoxLayout:
    """Return a box of parts below each other, which lays out the widget `on` if there is one.

    A part is a widget or a box, alone or with its stretch factor or a widget's alignment; STRETCH
    or SPARE; or a gap in pixels. `margins` are pixels on all sides, or left, top, right and bottom.
    `spacing` is pixels between parts; without it GRID on a widget, and in another box the spacing
    of that.
    """
    return _filled(QVBoxLayout(), parts, on, margins, spacing)


def hbox(
    *parts: Part, on: QWidget | None = None, margins: Margins = 0, spacing: int | None = None
) -> QHBoxLayout:
    """Return a box of parts from left to right; otherwise as `vbox`."""
    return _filled(QHBoxLayout(), parts, on, margins, spacing)


def _filled(
    box: Box, parts: tuple[Part, ...], on: QWidget | None, margins: Margins, spacing: int | None
) -> Box:
    left, top, right, bottom = (margins,) * 4 if isinstance(margins, int) else margins
    if on is not None:
        on.setLayout(box)
    box.setContentsMargins(left, top, right, bottom)
    if spacing is not None:
        box.setSpacing(spacing)
    elif on is not None:
        box.setSpacing(GRID)
    for part in parts:
        _add(box, part)
    return box


def _add(box: QBoxLayout, part: Part) -> None:
    if isinstance(part, int):
        box.addSpacing(part)
    elif isinstance(part, Gap):
        box.addStretch(part.value)
    else:
        content, how = part if isinstance(part, tuple) else (part, 0)
        if isinstance(content, QLayout):
            assert isinstance(how, int)
            box.addLayout(content, how)
        elif isinstance(how, Qt.AlignmentFlag):
            box.addWidget(content, 0, how)
        else:
            box.addWidget(content, how)
