"""Items of the list of tensors."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TensorItem:
    """A weight of the file, or by its name and occurrence in the graph a `result`."""

    name: str
    type: str
    dims: tuple[int, ...]
    layer: int | None
    result: tuple[str, int] | None = None


@dataclass(frozen=True)
class TensorGroup:
    """Tensors of a layer, or of none."""

    title: str
    items: tuple[TensorItem, ...]
