"""Kimi K2.5, K2.6: Kimi-VL's tower, its pairs that turn by one axis put together.

Moonshot AI 2026. The table of positions is stored as a square; pairs of the first half of a head
turn by the column, the others by the row.
"""

from engine.errors import ShapeError
from engine.graph.tensor import Tensor
from engine.models.vision import kimivl
from engine.models.vision.kimivl import Params, Weights

__all__ = ["Model", "Params", "Weights"]


class Model(kimivl.Model):
    """The tower of Kimi K2.5 (2026), for pictures."""

    projectors = ("kimik25",)
    tokens = ("<|media_begin|>", "<|media_content|>", "<|media_end|>")
    markers = ("<|media_begin|>image<|media_content|><|media_pad|><|media_end|>",)
    by_turns = False

    @property
    def positions(self) -> Tensor:
        table = self.weights.positions
        size, width, height = table.shape[:3]
        if width != height:
            raise ShapeError(table.name, "positions do not make a square", table.shape)
        return table.reshape(size, width * height)
