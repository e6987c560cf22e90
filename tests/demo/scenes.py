"""Pictures of one to four drawn shapes, and what is known of each shape.

Lengths are in units of a 64th of the picture's side, so that a shape's radius is about its number
of pixels once the picture has the tower's size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, pi, sin
from random import Random

from PIL import Image, ImageDraw

SIDE = 64
COLOURS = {
    "red": (214, 40, 40),
    "blue": (40, 80, 210),
    "green": (40, 160, 70),
    "yellow": (240, 200, 40),
    "purple": (140, 60, 180),
    "orange": (240, 130, 30),
    "black": (30, 30, 30),
    "pink": (245, 140, 180),
}
FORMS = ("circle", "square", "triangle", "star", "ring", "cross")
SIZES = ("small", "large")
MOST = 4

_RADII = {"small": (6.5, 8.5), "large": (11.5, 14.5)}
_GAP = 2
# A picture is cut into three columns and three rows here; no centre lies this near to a cut.
_CUTS = (SIDE * 0.36, SIDE * 0.64)
_CLEAR = 1.5
_DRAWN = 256


@dataclass(frozen=True)
class Shape:
    """One drawn shape: its centre from the left and the top, its radius, its jittered colour."""

    form: str
    colour: str
    size: str
    x: float
    y: float
    r: float
    rgb: tuple[int, ...]

    @property
    def place(self) -> str:
        """Where its centre lies among the nine parts of the picture."""
        across = ("left", "", "right")[_third(self.x)]
        down = ("top", "", "bottom")[_third(self.y)]
        if not across and not down:
            return "in the middle"
        return f"on the {across}" if not down else f"at the {down} {across}".rstrip()


Scene = Sequence[Shape]


def random_scene(random: Random, most: int = MOST) -> list[Shape]:
    """One to `most` shapes, no two of the same form and colour, in reading order."""
    count, shapes = random.randint(1, most), []
    for _ in range(200):
        shape = _random_shape(random, small=0.4 + 0.12 * (count - 1))
        if all(_apart(shape, other) for other in shapes):
            shapes.append(shape)
        if len(shapes) == count:
            break
    return sorted(shapes, key=lambda s: (_third(s.y), _third(s.x), s.x))


def draw(scene: Scene, random: Random) -> Image.Image:
    """The picture of a scene: RGB on a light ground, about 256 pixels a side, not always square."""
    stretch = random.choice((1.0, random.uniform(0.85, 1.18)))
    width, height = round(_DRAWN * stretch), round(_DRAWN / stretch)
    grey = random.choice((255, random.randint(215, 255)))
    ground = tuple(max(200, min(255, grey + random.randint(-14, 14))) for _ in range(3))
    picture = Image.new("RGB", (width, height), random.choice(((255, 255, 255), ground)))
    pen = ImageDraw.Draw(picture)
    for shape in scene:
        _draw_shape(pen, shape, width / SIDE, height / SIDE, turn=random.uniform(-0.12, 0.12))
    return picture


def _third(at: float) -> int:
    return sum(at > cut for cut in _CUTS)


def _random_shape(random: Random, small: float) -> Shape:
    size = "small" if random.random() < small else "large"
    r = random.uniform(*_RADII[size])
    colour = random.choice(tuple(COLOURS))
    rgb = tuple(max(0, min(255, value + random.randint(-18, 18))) for value in COLOURS[colour])
    x, y = (_clear_of_cuts(random, r + 1) for _ in "xy")
    return Shape(random.choice(FORMS), colour, size, x, y, r, rgb)


def _clear_of_cuts(random: Random, margin: float) -> float:
    while True:
        at = random.uniform(margin, SIDE - margin)
        if all(abs(at - cut) > _CLEAR for cut in _CUTS):
            return at


def _apart(a: Shape, b: Shape) -> bool:
    distance = max(abs(a.x - b.x), abs(a.y - b.y))
    return distance > a.r + b.r + _GAP and (a.form, a.colour) != (b.form, b.colour)


def _draw_shape(
    pen: ImageDraw.ImageDraw, shape: Shape, x_scale: float, y_scale: float, turn: float
) -> None:
    def at(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        """Points around the shape's centre, in radii, as pixels."""
        turned = [(u * cos(turn) - v * sin(turn), u * sin(turn) + v * cos(turn)) for u, v in points]
        return [
            ((shape.x + u * shape.r) * x_scale, (shape.y + v * shape.r) * y_scale)
            for u, v in turned
        ]

    box = (
        (shape.x - shape.r) * x_scale,
        (shape.y - shape.r) * y_scale,
        (shape.x + shape.r) * x_scale,
        (shape.y + shape.r) * y_scale,
    )
    if shape.form == "circle":
        pen.ellipse(box, fill=shape.rgb)
    elif shape.form == "ring":
        pen.ellipse(box, outline=shape.rgb, width=round(0.38 * shape.r * min(x_scale, y_scale)))
    else:
        for outline in _OUTLINES[shape.form]:
            pen.polygon(at(outline), fill=shape.rgb)


def _star() -> list[tuple[float, float]]:
    corners = ((1.0 if i % 2 == 0 else 0.42, i * pi / 5) for i in range(10))
    return [(r * sin(angle), -r * cos(angle)) for r, angle in corners]


def _rectangle(half_width: float, half_height: float) -> list[tuple[float, float]]:
    w, h = half_width, half_height
    return [(-w, -h), (w, -h), (w, h), (-w, h)]


_OUTLINES = {
    "square": [_rectangle(0.9, 0.9)],
    "triangle": [[(0.0, -1.0), (1.0, 0.9), (-1.0, 0.9)]],
    "star": [_star()],
    "cross": [_rectangle(1.0, 0.33), _rectangle(0.33, 1.0)],
}
