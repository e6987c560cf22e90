"""Operands of the host's operations: a tensor's bytes, read as float32 and written rounded."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from engine.gguf.formats import Format
from engine.graph.arrays import decode, encode

EVERYTHING = (...,)


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor where it lies, its shape reversed; `raw` as `engine.graph.arrays.raw_array` has it.

    Reading is one conversion per call and keeps nothing, so that weights cost no memory.
    """

    fmt: Format
    raw: NDArray[Any]

    def load(self, index: Any = EVERYTHING) -> NDArray[Any]:
        """The part that `index` selects (never inside rows), as float32 or int32."""
        return decode(self.raw[index], self.fmt)

    def store(self, values: NDArray[Any], index: Any = EVERYTHING) -> None:
        """Write `values` there, rounded to the stored type."""
        self.raw[index] = encode(values, self.fmt)
