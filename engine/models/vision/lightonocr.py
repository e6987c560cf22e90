"""LightOnOCR: Pixtral's tower with merging, before Qwen3; rows follow each other without marks.

LightOn 2025. (llama.cpp enlarges small pictures, and puts marks around the rows; the published
processor does neither.)
"""

from engine.images import layouts
from engine.images.plan import ImagePlan, Limits, Size
from engine.models.vision import pixtral
from engine.models.vision.pixtral import Params, Weights

__all__ = ["Model", "Params", "Weights"]


class Model(pixtral.Model):
    """The tower of LightOnOCR (2025)."""

    projectors = ("lightonocr",)
    architectures = ()
    hosts = ("qwen3",)
    tokens = ()
    markers = ("<|image_pad|>",)

    def plan(self, size: Size, limits: Limits) -> ImagePlan:
        longest, cell = self.params.longest, self.params.patch * self.merge
        return layouts.pixtral(size, limits, longest=longest, cell=cell, line_end="", end="")
