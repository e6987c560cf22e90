"""A case: an operation at one type and shape, with what it may be off by."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from engine.gguf.formats import BF16, F16, Format
from engine.graph.tensor import Tensor
from engine.selftest.operands import Operands

SHAPES = ((128, 2, 2, 2), (5, 7, 11, 13))
SWAPPED = (0, 2, 1, 3)

EXACT = 0.0
F32_MOST, F16_MOST, BF16_MOST = 1e-7, 1e-6, 1e-5
SOFTMAX_MOST = 1e-6
MATMUL_MOST = 1e-5  # activations in 12 bits
ATTENTION_MOST, QUANTIZED_KV_MOST = 1e-5, 5e-4

Build = Callable[[Operands], Tensor]


def bound(build: Callable[..., Tensor], **values: object) -> Build:
    """`build` for these values: what a loop's cases differ in."""
    return partial(build, **values)


@dataclass(frozen=True)
class Case:
    """`build` makes the node from operands of its own.

    `most` is the largest NMSE against the host, 0 for equality to the bit; `tiled` puts weights
    into the device's own layout. `quick` cases are the ones that everybody can wait for; `speed`
    ones are large, for measuring.
    """

    op: str
    label: str
    build: Build
    most: float = F32_MOST
    quick: bool = False
    tiled: bool = False
    speed: bool = False

    @property
    def name(self) -> str:
        return f"{self.op} {self.label}"


def most_of(fmt: Format) -> float:
    """The error that rounding to a type allows."""
    return {F16: F16_MOST, BF16: BF16_MOST}.get(fmt, F32_MOST)


def dims(*shape: int) -> str:
    """A shape as labels have it: [5,7,11]."""
    return f"[{','.join(map(str, shape))}]"


def forms(
    op: str, fmt: Format, made: Callable[[Tensor], Tensor], most: float | None = None
) -> Iterator[Case]:
    """`made` of something packed, of a view and of something permuted."""
    allowed = most_of(fmt) if most is None else most
    for shape in SHAPES:
        label = f"{fmt} {dims(*shape)}"
        packed = bound(lambda o, s: made(o.make(fmt, *s)), s=shape)
        view = bound(lambda o, s: made(o.view(fmt, *s)), s=shape)
        permuted = bound(lambda o, s: made(o.permuted(fmt, SWAPPED, *s)), s=shape)
        yield Case(op, label, packed, allowed, shape == SHAPES[1])
        yield Case(op, f"view {label}", view, allowed)
        yield Case(op, f"permuted {label}", permuted, allowed)
