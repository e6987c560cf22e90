"""The numbers of a tensor as text in nested brackets, the slowest dimension outermost.

Here and not with the graph, so that the app can show what lies in a mapped file by itself.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadSetting
from engine.gguf.dequantize import dequantize
from engine.gguf.formats import Format


def dump(
    values: NDArray[Any],
    fmt: Format | None = None,
    *,
    precision: int = 4,
    threshold: int = 1000,
    edge_items: int = 3,
) -> str:
    """An array of reversed shape (NumPy's), without leading ones; or with `fmt` its stored bytes.
    One without dimensions is shown as a row of one number.

    Then `values` is uint8 [..., row bytes], little-endian, and only rows that are shown are
    decoded. Floats have `precision` decimals, integers none; NaN, +Inf and -Inf are such. Of more
    than `threshold` elements only the first and last `edge_items` of each dimension are shown.

    Raises `BadSetting` for numbers below 0, `UnsupportedModel` for types without a decoder.
    """
    for name, value in (("precision", precision), ("threshold", threshold)):
        if value < 0:
            raise BadSetting(name, value, "0 or more")
    if edge_items < 1:
        raise BadSetting("edge_items", edge_items, "1 or more")
    if fmt is None:
        values = np.atleast_1d(values)
    length = values.shape[-1] if fmt is None else values.shape[-1] // fmt.bytes * fmt.block
    outer = 0
    while outer < values.ndim - 1 and values.shape[outer] == 1:
        outer += 1
    values = values.reshape(values.shape[outer:])
    few = int(np.prod(values.shape[:-1])) * length <= threshold
    made = _Dump(values.ndim, fmt, precision, None if few else edge_items)
    return "".join(made.level(values))


class _Dump:
    def __init__(self, n_dims: int, fmt: Format | None, precision: int, edge: int | None) -> None:
        self._n_dims, self._fmt, self._precision, self._edge = n_dims, fmt, precision, edge

    def level(self, values: NDArray[Any]) -> Iterator[str]:
        """One pair of brackets; lines between its parts grow with their depth."""
        if values.ndim == 1:
            yield from self._row(values if self._fmt is None else _decoded(values, self._fmt))
            return
        line = "\n" * (values.ndim - 1) + " " * (self._n_dims - values.ndim + 1)
        yield "["
        for place, i in enumerate(shown := self._shown(len(values))):
            if place:
                yield "," + line
            if place and i != shown[place - 1] + 1:
                yield "..., " + line
            yield from self.level(values[i])
        yield "]"

    def _row(self, values: NDArray[Any]) -> Iterator[str]:
        yield "["
        for place, i in enumerate(shown := self._shown(len(values))):
            if place:
                yield ", "
            if place and i != shown[place - 1] + 1:
                yield "..., "
            text = self._number(values[i])
            yield text if text.startswith("-") else " " + text
        yield "]"

    def _shown(self, n: int) -> list[int]:
        """Which of n are shown."""
        if self._edge is None or n <= 2 * self._edge:
            return list(range(n))
        return [*range(self._edge), *range(n - self._edge, n)]

    def _number(self, value: Any) -> str:
        if isinstance(value, np.integer):
            return str(value)
        if np.isnan(value):
            return "NaN"
        if np.isinf(value):
            return "+Inf" if value > 0 else "-Inf"
        return f"{value:.{self._precision}f}"


def _decoded(row: NDArray[np.uint8], fmt: Format) -> NDArray[Any]:
    """A row's bytes as numbers of the type's own kind, or float32 where NumPy has none."""
    return row.view(fmt.dtype) if fmt.dtype is not None else dequantize(row, fmt)
