"""How a device and a component look: colour, letter and hatch, so that colour is never alone."""

from dataclasses import dataclass
from string import ascii_uppercase

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPen

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import DEVICES, HOST, mix, readable

_Pattern = Qt.BrushStyle
_HATCHES = (
    _Pattern.BDiagPattern,
    _Pattern.FDiagPattern,
    _Pattern.HorPattern,
    _Pattern.VerPattern,
    _Pattern.DiagCrossPattern,
    _Pattern.CrossPattern,
)
# Opacity over the panel; what is not listed is drawn as "graph" is.
_SHARES = {
    "weights": 1.0,
    "adapters": 0.8,
    "cache": 0.65,
    "recurrent state": 0.65,
    "checkpoints": 0.55,
    "vision": 0.55,
    "graph": 0.4,
}
_HATCHED = ("graph", "input", "staging", "mapped")
SWATCH = 16  # pixels at normal text
_HOST_LETTER = "H"
_LETTERS = ascii_uppercase.replace(_HOST_LETTER, "")
_places: dict[str, int] = {}


@dataclass(frozen=True)
class DeviceLook:
    """`letter` stands where the colour does; `hatch` marks the device's strip."""

    colour: str
    letter: str
    hatch: Qt.BrushStyle


def device_look(device: str) -> DeviceLook:
    """The look of a device; places are given in the order in which devices are first seen."""
    if device == "host":
        return DeviceLook(HOST, _HOST_LETTER, _Pattern.Dense6Pattern)
    place = _places.setdefault(device, len(_places))
    turn = place % len(DEVICES)
    return DeviceLook(DEVICES[turn], _LETTERS[place % len(_LETTERS)], _HATCHES[turn])


def lettered(device: str) -> str:
    """A device's letter with its name."""
    return f"{device_look(device).letter} {device}"


def component_colour(device: str, component: str) -> str:
    """The colour of a component's area on the panel."""
    share = _SHARES.get(component, _SHARES["graph"])
    return mix(device_look(device).colour, tokens().panel, share)


def component_brushes(device: str, component: str) -> list[QBrush]:
    """Return the brushes of a component's area, painted in order."""
    colour = component_colour(device, component)
    brushes = [QBrush(QColor(colour))]
    if component in _HATCHED:
        line = QColor(mix(device_look(device).colour, colour, 0.45))
        brushes.append(QBrush(line, _Pattern.BDiagPattern))
    elif component == "vision":
        line = QColor(mix(device_look(device).colour, colour, 0.6))
        brushes.append(QBrush(line, _Pattern.Dense6Pattern))
    return brushes


def fill_component(painter: QPainter, area: QRectF, device: str, component: str) -> str:
    """Paint an area of that component; the colour for text upon it."""
    for brush in component_brushes(device, component):
        painter.fillRect(area, brush)
    return readable(component_colour(device, component))


def swatch_size() -> int:
    """The side of a device's square; it grows with the text."""
    return fonts.px(SWATCH)


def draw_swatch(painter: QPainter, left: float, middle: float, device: str) -> None:
    """The device's square with its letter and hatch, centred on the height `middle`."""
    look, side = device_look(device), swatch_size()
    area = QRectF(left, middle - side / 2, side, side)
    painter.save()
    painter.setFont(fonts.small())
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(look.colour))
    painter.drawRoundedRect(area, 3, 3)
    ink = readable(look.colour)
    painter.setBrush(QBrush(QColor(mix(ink, look.colour, 0.18)), look.hatch))
    painter.drawRoundedRect(area, 3, 3)
    painter.setPen(QPen(QColor(ink)))
    painter.drawText(area, Qt.AlignmentFlag.AlignCenter, look.letter)
    painter.restore()
