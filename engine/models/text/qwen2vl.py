"""Qwen2-VL, Qwen2.5-VL, PaddleOCR-VL, text: Qwen2 whose pairs turn by time, height and width.

Wang et al. 2024; tensor names and keys by the GGUF spec. PaddleOCR-VL (2025) is ERNIE 4.5 with such
pairs, without biases.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

from engine.layers.rope import Mode, RopeParams, Sections
from engine.models.decoder import HEAD, Decoder, DecoderParams
from engine.models.text.qwen2 import Weights
from engine.weights.params import Meta

__all__ = ["Model", "Params", "Weights"]


def sections_problem(sections: tuple[int, ...], n_pairs: int) -> str:
    """Why pairs cannot be shared out so; empty where they can."""
    if len(sections) in (3, 4) and sum(sections) == n_pairs:
        return ""
    shown = list(sections[:8])
    return f"rope.dimension_sections are {shown}; expected 3 or 4 whose sum is {n_pairs}"


def four(sections: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Pairs by time, height, width, and a fourth that files may leave out."""
    time, height, width, fourth = (*sections, 0)[:4]
    return time, height, width, fourth


@dataclass(frozen=True, kw_only=True)
class SectionedParams(DecoderParams):
    """Keys of architectures that also have files for text alone, which have no sections."""

    sections: Annotated[
        tuple[int, ...], Meta("rope.dimension_sections", HEAD, alt=("rope.mrope_section",))
    ] = ()

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        wrong = any(self.sections) and sections_problem(self.sections, self.rope_dim // 2)
        return super().problem() or wrong or ""

    def sectioned(self, rope: RopeParams, mode: Mode = "blocks") -> RopeParams:
        """The same, and with sections NeoX pairs that turn by time, height and width."""
        if not any(self.sections):
            return rope
        return replace(rope, neox=True, sections=Sections(four(self.sections), mode))


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    sections: Annotated[
        tuple[int, ...], Meta("rope.dimension_sections", HEAD, alt=("rope.mrope_section",))
    ]

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        return super().problem() or sections_problem(self.sections, self.rope_dim // 2)


class Model(Decoder[Params, Weights]):
    @cached_property
    def turned(self) -> RopeParams:
        rope = self.params.rope(self.neox)
        return replace(rope, sections=Sections(four(self.params.sections)))
