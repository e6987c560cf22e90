"""Minnow as it would be with all of its layers seeing everything: a variant of another file."""

from dataclasses import dataclass
from typing import Annotated

from engine.models.text import minnow
from engine.weights.params import Meta, Range

Weights = minnow.Weights


@dataclass(frozen=True, kw_only=True)
class Params(minnow.Params):
    """Its files need no window."""

    window: Annotated[int, Meta("attention.sliding_window", Range(0, 0))] = 0


class Model(minnow.Model):
    """The rest is the same."""

    def window(self, i: int) -> int | None:
        return None
