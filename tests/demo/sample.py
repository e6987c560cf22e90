"""Draws the picture that the demo opens with: `python -m tests.demo.sample`.

Three shapes, unturned and on white, of which the model is right with every seed that was tried.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from app.fetch import bundled
from tests.demo.scenes import COLOURS, Shape, draw

SCENE = (
    Shape("circle", "red", "large", 16, 17, 13, COLOURS["red"]),
    Shape("square", "blue", "large", 48, 32, 13, COLOURS["blue"]),
    Shape("triangle", "green", "small", 16, 50, 7.5, COLOURS["green"]),
)


class _Plain(Random):
    """Draws nothing by chance."""

    def choice(self, seq: Sequence[Any]) -> Any:
        return seq[0]

    def uniform(self, a: float, b: float) -> float:
        return 0.0

    def randint(self, a: int, b: int) -> int:
        return b


if __name__ == "__main__":
    draw(SCENE, _Plain()).save(bundled.sample())
