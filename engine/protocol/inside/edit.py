"""An answer by a model whose results are edited while it computes."""

from collections.abc import Sequence
from typing import Literal, Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from engine.protocol.message import Order, Reply

EditOp = Literal["set", "add", "scale", "project", "hold", "swap", "feature"]
MOST_EDITS = 256
"""The most edits of a request."""


class Edit(msgspec.Struct, frozen=True):
    """Change a result of some layers at some positions.

    A `site` is a result's name without its layer (`l_out`, `Qcur`), or `residual`, `attention`,
    `feed_forward` or `heads`, which every architecture has. `layers` is empty for a result that
    belongs to none. `positions`: all, prompt, answer, last (of the prompt), N, A:B (without B), or
    -N from the prompt's end. Of several results of that name the last is edited, or number
    `occurrence`. An edit is of all numbers of a token, of one `head`, of `channels` [first, end),
    or of one `expert`; `delta` edits what the layer added and not the sum (site `residual`).

    `vector` and `other` are float32 bytes (little-endian), as many as numbers are edited:

        set       value, or value x vector       scale     x value
        add       + value, or + value x vector   project   the direction `vector` removed, x value
        hold      the component along `vector` is value
        swap      the components along `vector` and `other`, or the two `channels`, change places
        feature   the activation a of an autoencoder's feature is value: + (value - a) x `other`,
                  a = z = `bias` + the sum of `vector` x the row, or 0 unless z > `threshold` and 0
    """

    site: str
    layers: list[int]
    op: EditOp
    positions: str = "all"
    occurrence: int | None = None
    head: int | None = None
    expert: int | None = None
    channels: tuple[int, int] | None = None
    value: float = 1.0
    vector: bytes = b""
    other: bytes = b""
    delta: bool = False
    bias: float = 0.0
    threshold: float = 0.0

    @classmethod
    def of(
        cls,
        op: EditOp,
        site: str,
        layers: int | Sequence[int],
        by: float = 1.0,
        vector: ArrayLike = (),
        other: ArrayLike = (),
        *,
        positions: str = "all",
        head: int | None = None,
        expert: int | None = None,
        channels: tuple[int, int] | None = None,
        delta: bool = False,
    ) -> Self:
        """An edit of arrays and of one layer or several."""
        listed = [layers] if isinstance(layers, int) else list(layers)
        first, second = (np.asarray(each, "<f4").tobytes() for each in (vector, other))
        return cls(
            site, listed, op, positions, None, head, expert, channels, by, first, second, delta
        )

    @classmethod
    def scale(
        cls,
        site: str,
        layers: int | Sequence[int],
        *,
        by: float,
        head: int | None = None,
        positions: str = "all",
    ) -> Self:
        """A result, or one of its heads, times a factor."""
        return cls.of("scale", site, layers, by, head=head, positions=positions)

    @classmethod
    def add(
        cls,
        site: str,
        layers: int | Sequence[int],
        vector: ArrayLike,
        by: float = 1.0,
        positions: str = "all",
    ) -> Self:
        """A result plus a vector times a factor."""
        return cls.of("add", site, layers, by, vector, positions=positions)


class ReviseEdits(Order, frozen=True):
    """From the next step on, the running `Generate` of this id has these edits. Only their values
    may differ from those that it began with: nothing is built. It says so with `EditsRevised`,
    which has the same `number`; of several in one step only the last counts.
    """

    edits: list[Edit]
    number: int


class EditsRevised(Reply, frozen=True):
    """An answer's edits have changed from item `position` on, counted from the prompt's first, of
    which the prompt has `n_prompt`; or `problem` says why not.
    """

    number: int
    position: int
    n_prompt: int
    problem: str = ""
