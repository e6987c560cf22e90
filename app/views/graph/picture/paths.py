"""The lines of a scene as painter paths."""

from collections.abc import Sequence

from PySide6.QtCore import QPointF
from PySide6.QtGui import QPainterPath

from app.state.graph.scene import APART, SceneCard

CORNER = 5.0
HEIGHT = 22.0  # of a card's joint below its upper edge

Point = tuple[float, float]


def rounded(points: Sequence[Point]) -> QPainterPath:
    """A line with its corners rounded."""
    path = QPainterPath(QPointF(*points[0]))
    for before, at, after in zip(points, points[1:], points[2:], strict=False):
        path.lineTo(_towards(at, before))
        path.quadTo(QPointF(*at), _towards(at, after))
    path.lineTo(QPointF(*points[-1]))
    return path


def between(one: SceneCard, other: SceneCard) -> QPainterPath:
    """An arrow from the right of a card to the left of the next, also where that begins a row."""
    start, end = (one.x + one.width, one.y + HEIGHT), (other.x, other.y + HEIGHT)
    points = [start, end]
    if other.x <= one.x:
        turn, right, left = other.y - APART / 2, start[0] + 20, end[0] - 20
        points = [start, (right, start[1]), (right, turn), (left, turn), (left, end[1]), end]
    path, tip = rounded(points), QPointF(*end)
    path.moveTo(tip + QPointF(-7, -5))
    path.lineTo(tip)
    path.lineTo(tip + QPointF(-7, 5))
    return path


def _towards(at: Point, other: Point) -> QPointF:
    """A point a corner's radius from `at`, at most half of the way."""
    dx, dy = other[0] - at[0], other[1] - at[1]
    length = max(abs(dx), abs(dy), 1e-9)
    share = min(CORNER / length, 0.5)
    return QPointF(at[0] + dx * share, at[1] + dy * share)
