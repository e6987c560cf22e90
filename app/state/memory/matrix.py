"""Cells of memory as rows of layers and columns of devices' components, and in words."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from app.language import decimal, tr
from app.state.memory.totals import Cell, Place, places
from engine.units import MIB

SHARED = "shared"  # what belongs to no layer
OUTPUT = "out"


@dataclass(frozen=True)
class Grid:
    """`layers` from 0, the output block, then None for what belongs to none."""

    layers: tuple[int | None, ...] = ()
    columns: tuple[Place, ...] = ()
    output: int = 0
    at: dict[tuple[int | None, Place], Cell] = field(default_factory=dict)

    def cell(self, row: int, column: int) -> Cell | None:
        """Return the cell at a row and column, counted from 0."""
        return self.at.get((self.layers[row], self.columns[column]))

    def title(self, layer: int | None) -> str:
        """Return the title of a row."""
        return layer_title(layer, self.output)

    def row(self, row: int) -> list[Cell]:
        """All cells of a layer."""
        found = (self.cell(row, column) for column in range(len(self.columns)))
        return [cell for cell in found if cell is not None]

    def shared(self) -> list[int]:
        """Columns in which no layer has anything."""
        of_layers = {place for (layer, place) in self.at if layer is not None}
        return [at for at, place in enumerate(self.columns) if place not in of_layers]

    def scales(self) -> dict[str, int]:
        """For each component the size that fills a cell."""
        sizes: dict[str, list[int]] = {}
        for cell in self.at.values():
            sizes.setdefault(cell.kind, []).append(cell.size)
        return {kind: _scale(found) for kind, found in sizes.items()}


def layer_title(layer: int | None, output: int | None) -> str:
    """A layer's number, or what the output block and what belongs to no layer are called."""
    if layer is None:
        return SHARED
    return OUTPUT if layer == output else str(layer)


def grid(cells: Iterable[Cell], n_layer: int) -> Grid:
    """Every cell in its place; the output block counts as layer `n_layer`."""
    cells = list(cells)
    numbers = sorted({cell.layer for cell in cells if cell.layer is not None})
    rest = [None] if any(cell.layer is None for cell in cells) else []
    at = {(cell.layer, (cell.device, cell.kind)): cell for cell in cells}
    return Grid((*numbers, *rest), tuple(places(cells)), n_layer, at)


def describe(cell: Cell, title: str, refusal: str = "") -> str:
    """A cell in a sentence; one that was refused with what to do next."""
    layer = {SHARED: tr("shared by all layers"), OUTPUT: tr("output block")}.get(
        title, tr("layer {title}", title=title)
    )
    if cell.status == "failed" and refusal:
        return f"{refusal}. {next_step(cell)}"
    size, held = tr("{size:.1f} MiB", size=cell.size / MIB), decimal(f"{cell.held / MIB:.1f}")
    meaning = {
        "planned": tr("{held} of {size} held", held=held, size=size)
        if cell.held
        else tr("{size} planned", size=size),
        "allocated": tr("{size} held", size=size)
        + (tr(", as planned") if cell.planned == cell.held else ""),
        "mapped": tr("{size} mapped from the file, not allocated", size=size),
        "failed": tr("{size} requested, refused", size=size),
    }[cell.status]
    return f"{cell.device}, {tr(cell.component)}, {layer}: {meaning}"


def next_step(cell: Cell) -> str:
    """Return a sentence on what to try after this allocation failed."""
    if cell.component in ("weights", "vision"):
        return tr("Choose another device, a larger budget, or a smaller quantisation of the model.")
    return tr("Choose a smaller context, another device, or a larger budget.")


def _scale(sizes: list[int]) -> int:
    """The size that fills a cell; one far above the others (the output's) does not count."""
    usual = [size for size in sizes if size <= 4 * median(sizes)]
    return max(usual, default=0)
