"""The file whose layers are placed, and an edited placement that is not applied yet."""

from dataclasses import dataclass, replace
from pathlib import Path

from app.state.layers.placing import EditedPlacement
from engine.settings import EngineOptions


@dataclass(frozen=True)
class PlacedFile:
    """The open model, or a file that would be loaded with `options`."""

    path: Path
    options: EngineOptions
    is_open: bool

    def is_like(self, other: "PlacedFile") -> bool:
        """Return whether both differ at most in the placement and in being open."""
        options = replace(other.options, place=self.options.place)
        return (self.path, self.options) == (other.path, options)


@dataclass(frozen=True)
class Draft:
    """A placement by its rule; empty is the engine's own choice. `placement` is None until an
    engine has told what a rule means.
    """

    rule: str
    placement: EditedPlacement | None = None
