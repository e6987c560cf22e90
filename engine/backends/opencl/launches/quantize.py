"""Launches that put activations into panels, in 12 or 8 bits, as halves or as they are."""

from collections.abc import Mapping, Sequence
from typing import Literal

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import Defines, aligned, ints, rows_in, strides
from engine.backends.opencl.tiles.schemes import SCHEMES, FloatScheme
from engine.device.backend import TypeOf
from engine.gguf.formats import Format
from engine.graph.lowered import Panels, Quantize
from engine.graph.tensor import Tensor

BLOCK = 32
BLOCK_BYTES: Mapping[int, int] = {8: 44, 12: 80, 16: 80, 32: 128}
"""What a row's 32 elements take, by their bits: X_BYTES in common.cl."""

WIDE_ROWS = 33
"""Fewest rows of x for which a group of lanes makes 64 rows of weights times 64 of x
(matmul_wide.cl).
"""

WIDE_ITEMS, WIDE_BYTES = 128, 18 << 10
"""Items of such a group, and bytes of local memory that it takes at most."""

# Fours of products that must fit 16 bits (Scheme.fours) for bytes to be quicker than 12 bits: where
# registers are wide, adding pairs of those to 32 bits is one instruction, so more.
_FOURS, _FOURS_OF_WIDE = 2, 8

# Most rows of a panel that narrow vectors multiply as digits, and that wide ones do.
_ROWS_IN_DIGITS, _ROWS_OF_WIDE = 3, 4

# Blocks per item that takes vectors: a launch for one row must be worth its price.
_EACH = 64


def has_wide_vectors(traits: DeviceTraits) -> bool:
    """Vectors of 16 numbers: on x86 they come with twice as many registers, for more sums."""
    return traits.items_take_vectors and traits.vector_ints >= 16


def has_dots(traits: DeviceTraits) -> bool:
    """True if activations are digits, for lanes that add four products of bytes at once."""
    return bool(traits.dot4) and not traits.items_take_vectors


def has_bytes(traits: DeviceTraits) -> bool:
    """True if items take vectors that have instructions for bytes."""
    return traits.items_take_vectors and traits.vector_bytes


def in_digits(fmt: Format, rows: int, panel: int, traits: DeviceTraits) -> bool:
    """True if the 12-bit activations of a product of so many `rows`, `panel` at a time, are two
    digits: always for lanes that multiply bytes; for vectors where a panel has few rows; for wide
    vectors where one panel also has all of them. A panel is written and read in the same way.

    To unpack codes into bytes takes half as many instructions as into pairs, but every row's sums
    are widened then: of codes that are bytes, so often that two rows are quicker in pairs.
    """
    scheme = SCHEMES[fmt]
    as_pairs = panel == 2 and not isinstance(scheme, FloatScheme) and scheme.words == 8
    fits = rows <= panel or not has_wide_vectors(traits)
    return has_dots(traits) or (panel <= _most_in_digits(traits) and fits and not as_pairs)


def _most_in_digits(traits: DeviceTraits) -> int:
    """Rows of a panel that vectors multiply as digits, at most. Wide ones have registers for pairs
    of many, which are quicker where four bytes are not one instruction.
    """
    if not has_bytes(traits):
        return 0
    if has_wide_vectors(traits):
        return _ROWS_OF_WIDE if traits.vnni else 1
    return _ROWS_IN_DIGITS


def is_wide(fmt: Format, rows: int, traits: DeviceTraits) -> bool:
    """True if groups make 64 rows of such weights times 64 of so many rows of x."""
    fits = traits.max_work_group >= WIDE_ITEMS and traits.local_memory >= WIDE_BYTES
    return rows >= WIDE_ROWS and fits and not SCHEMES[fmt].exact and has_dots(traits)


def panel_rows(rows: int, traits: DeviceTraits, scattered: bool = False) -> int:
    """One row a panel, or so many that few are added to fill the last one: two, four, or eight
    where registers hold the sums of so many; or three, where they are digits, which `scattered`
    rows are not.
    """
    if rows == 1:
        return 1
    if not traits.items_take_vectors:
        return 4 if rows <= 4 else traits.tuned.lane_panel
    most = traits.tuned.panel if has_wide_vectors(traits) else 4
    sizes = [size for size in (8, 4, 2) if size <= most]
    panels = 1 if has_wide_vectors(traits) else 2
    few = rows <= panels * _ROWS_IN_DIGITS and not scattered
    if few and _most_in_digits(traits) >= _ROWS_IN_DIGITS:
        sizes.append(_ROWS_IN_DIGITS)
    return min(sizes, key=lambda size: -(-rows // size) * (size + 1))


def panel_bits(fmt: Format, rows: int, panel: int, traits: DeviceTraits) -> Literal[8, 12, 16, 32]:
    """Bits of activations of so many rows that meet a weight of such a format in panels.

    16 where matrix units multiply halves. 8, where they are chosen, are for several panels of rows:
    fewer wait for memory, and would lose exactness for nothing. So would all on devices, and of
    formats, that multiply bytes no quicker.
    """
    scheme = SCHEMES[fmt]
    if isinstance(scheme, FloatScheme):
        return 32
    if panel > 1 and traits.matrix_halves and is_wide(fmt, rows, traits):
        return 16
    several = rows > panel > 1 and traits.items_take_vectors
    needed = _FOURS_OF_WIDE if has_wide_vectors(traits) else _FOURS
    quicker = traits.vector_ints >= 8 and (traits.vnni or scheme.fours() >= needed)
    chosen = traits.activation_bits == 8 and scheme.takes_bytes
    return 8 if chosen and several and quicker else 12


def panel_defines(panels: Panels | None) -> Defines:
    """Build options of a program that writes or reads such panels."""
    if panels is None or panels.bits == 12:
        return {"X_DIGITS": 1} if panels is not None and panels.digits else {}
    return {"X_F32": 1} if panels.bits == 32 else {"X_BITS": panels.bits}


def quantize(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One item some blocks of a row, those that fill the last panel included."""
    op = Quantize.of(node)
    x, panel = op.x, op.panels.rows
    k, n1, n2, _ = x.shape
    each = _EACH if traits.items_take_vectors else 1
    args: Args = {
        "out": node,
        "x": x,
        **ints(blocks=k // BLOCK, rows=rows_in(x.shape), n1=n1, n2=n2),
        **strides("s", x.strides[1:], 1),
        **ints(panel=panel, each=each),
    }
    size = (-(-k // BLOCK // each), node.shape[1] * panel)
    local = (1, 1) if traits.items_take_vectors else None
    defines = {**panel_defines(op.panels), **aligned(traits, x)}
    return [Launch("quantize", "quantize", args, size, local, defines)]
