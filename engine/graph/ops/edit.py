"""Instructions that change rows of a result: which ones, each row's own input says."""

from dataclasses import dataclass

from engine.errors import ShapeError
from engine.gguf.formats import F32, I32
from engine.graph.node import Arguments, node
from engine.graph.op import Op
from engine.graph.tensor import Tensor

CODE = ("low", "high", "u", "v", "w", "jump", "expert")
"""Columns of an instruction's code; u, v and w are rows of the vectors, -1 for none."""
NUMBERS = ("alpha", "b", "kappa", "beta", "theta", "gamma")
"""Columns of an instruction's numbers."""
COLUMNS = 8


@dataclass(frozen=True)
class RowEdits(Arguments):
    """Rows x, n of R numbers each; of each row its `first` instruction and their `count`; code and
    numbers of all instructions; vectors of R numbers; what is taken from x before and added again
    after; the expert that each row is of.
    """

    x: Tensor
    first: Tensor
    count: Tensor
    code: Tensor
    number: Tensor
    vectors: Tensor | None
    entered: Tensor | None
    experts: Tensor | None

    @property
    def n_rows(self) -> int:
        """How many rows x has."""
        return self.first.nelements

    @property
    def width(self) -> int:
        """R."""
        return self.x.nelements // self.n_rows


def edit(
    x: Tensor,
    first: Tensor,
    count: Tensor,
    code: Tensor,
    number: Tensor,
    vectors: Tensor | None = None,
    entered: Tensor | None = None,
    experts: Tensor | None = None,
) -> Tensor:
    """x with each row's instructions applied, one on the result of the other.

    Of an instruction with S = [low, high), z = beta + sum over S of u x, and g = z, or z where
    z > max(theta, 0) else 0 with `jump`:

        y = alpha x + b v + (kappa g + gamma) w over S, y = x elsewhere

    v is 1 where there is none, w 0. Where `expert` is not -1, only rows of that expert change. x is
    packed f32 of n rows R, `first` and `count` i32 [n], `code` i32 [8, M] and `number` f32 [8, M]
    (columns as in CODE and NUMBERS), `vectors` f32 [R, N], `entered` like x, `experts` i32 of n.
    """
    arguments = RowEdits(x, first, count, code, number, vectors, entered, experts)
    n, shapes = first.nelements, [x.shape, first.shape, code.shape]
    floats = (x, number, vectors, entered)
    if any(t is not None and (t.fmt is not F32 or not t.is_contiguous) for t in floats):
        raise ShapeError("edit", "needs packed f32 x, numbers and vectors", *shapes)
    if any(t is not None and t.fmt is not I32 for t in (first, count, code, experts)):
        raise ShapeError("edit", "needs i32 first, count, code and experts", *shapes)
    if count.nelements != n or x.nelements % n or (experts and experts.nelements != n):
        raise ShapeError("edit", f"x is not {n} rows", *shapes)
    if code.shape != number.shape or code.dims[0] != COLUMNS:
        raise ShapeError("edit", f"an instruction has {COLUMNS} columns", code.shape, number.shape)
    if vectors is not None and vectors.shape[0] != arguments.width:
        raise ShapeError("edit", f"rows have {arguments.width} numbers", vectors.shape)
    if entered is not None and entered.shape != x.shape:
        raise ShapeError("edit", "what entered is not like x", x.shape, entered.shape)
    return node(Op.EDIT, F32, x.shape, arguments)
