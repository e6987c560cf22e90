"""What is placed, and a placement of it that is not in effect yet."""

from dataclasses import dataclass, replace
from pathlib import Path

from app.state.layers.placing import EditedPlacement
from engine.settings import EngineOptions


@dataclass(frozen=True)
class PlacedFile:
    """What is placed: the open model, or a file that `options` would load."""

    path: Path
    options: EngineOptions
    is_open: bool

    def is_like(self, other: "PlacedFile") -> bool:
        """Whether they differ in the placement at most, and in being open."""
        options = replace(other.options, place=self.options.place)
        return (self.path, self.options) == (other.path, options)


@dataclass(frozen=True)
class Draft:
    """A placement by its rule; empty is the engine's own choice. `placement` is None until an
    engine has told what a rule means.
    """

    rule: str
    placement: EditedPlacement | None = None
