"""Families of kernels to tune: their numbers, which of them go together, the work to time
compare them, and in which unit its speed is given.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

from msgspec import structs

from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.launches.quantize import has_wide_vectors
from engine.backends.opencl.tiles.schemes import TILE
from engine.backends.opencl.tuned import CHOICES, Tuned
from engine.gguf.formats import F16, F32, Q4_K, Q8_0, Format
from engine.graph import ops
from engine.graph.tensor import Role, Tensor
from engine.selftest.operands import Operands, visible

Make = Callable[[Operands], list[Tensor]]


def _any(tuned: Tuned, traits: DeviceTraits) -> bool:
    return True


@dataclass(frozen=True)
class TuningFamily:
    """`names` are tried in all combinations that are `valid`; `make` gives the nodes that are run.

    A family is for CPUs, whose items take vectors, or for devices whose items are lanes.
    """

    name: str
    for_vectors: bool
    names: tuple[str, ...]
    unit: Literal["GB/s", "GFLOP/s"]
    make: Make
    valid: Callable[[Tuned, DeviceTraits], bool] = _any

    def combinations(self, base: Tuned, traits: DeviceTraits) -> Iterator[Tuned]:
        """Every valid one but `base`, which differs from it in this family's numbers only."""
        for values in product(*(CHOICES[name] for name in self.names)):
            tuned = structs.replace(base, **dict(zip(self.names, values, strict=True)))
            if tuned != base and self.valid(tuned, traits):
                yield tuned


def decode(o: Operands) -> list[Tensor]:
    """Feed-forward blocks for one token: more weights than a cache holds."""
    return [_feed_forward(o, fmt, 1) for fmt in (Q4_K, Q8_0) for _ in range(4)]


def prefill(o: Operands) -> list[Tensor]:
    """The same for many."""
    return [_feed_forward(o, fmt, 256) for fmt in (Q4_K, Q8_0)]


def attention(o: Operands) -> list[Tensor]:
    """One token's heads over a cache of moderate size, of some layers."""
    heads, kv_heads, dim, cells = 9, 3, 64, 2048
    seen = visible(o, 1, cells, cells - 30)
    made = []
    for _ in range(8):
        q = o.make(F32, dim, heads, 1)
        k, v = (o.make(F16, dim, kv_heads, cells) for _ in range(2))
        made.append(ops.attention(q, k, v, *seen, scale=dim**-0.5))
    return made


def rows(o: Operands) -> list[Tensor]:
    """Operations on a prompt's rows between products."""
    x, y = o.make(F32, 1024, 128), o.make(F32, 1024, 128)
    weight = o.make(F32, 1024)
    return [ops.add(x, y), ops.mul(x, y), ops.silu(x, y), ops.rms_norm(x, weight, 1e-5)]


def _feed_forward(o: Operands, fmt: Format, n: int) -> Tensor:
    x = o.make(F32, 1024, n)
    gate, up = (o.make(fmt, 1024, 3072, role=Role.WEIGHT) for _ in range(2))
    down = o.make(fmt, 3072, 1024, role=Role.WEIGHT)
    return ops.matmul(down, ops.silu(ops.matmul(gate, x), ops.matmul(up, x)))


def _panels_fit(tuned: Tuned, traits: DeviceTraits) -> bool:
    """Eight rows need twice as many registers; a unit of work is whole panels."""
    wide_enough = has_wide_vectors(traits) or tuned.panel == 4
    return wide_enough and tuned.chunk % tuned.panel == 0


def _crosses(tuned: Tuned, traits: DeviceTraits) -> bool:
    return has_wide_vectors(traits)


def _team_fits(tuned: Tuned, traits: DeviceTraits) -> bool:
    """Sums of a team meet in local memory, in groups that the device takes."""
    sums = tuned.lane_team * tuned.lane_panel * TILE * 4
    return tuned.lane_team * TILE <= traits.max_work_group and sums <= traits.local_memory


def _group_fits(tuned: Tuned, traits: DeviceTraits) -> bool:
    return tuned.row_team <= traits.max_work_group


TUNED_FAMILIES = (
    TuningFamily("decode", True, ("ahead", "tiles"), "GB/s", decode),
    TuningFamily("prefill", True, ("panel", "chunk"), "GFLOP/s", prefill, _panels_fit),
    TuningFamily("products", True, ("crossed",), "GFLOP/s", prefill, _crosses),
    TuningFamily("attention", True, ("cells",), "GB/s", attention),
    TuningFamily("rows", True, ("elements",), "GB/s", rows),
    TuningFamily("decode", False, ("lane_team",), "GB/s", decode, _team_fits),
    TuningFamily("prefill", False, ("lane_panel",), "GFLOP/s", prefill, _team_fits),
    TuningFamily("attention", False, ("lane_cells",), "GB/s", attention),
    TuningFamily("rows", False, ("row_team",), "GB/s", rows, _group_fits),
)


def families_for(traits: DeviceTraits) -> list[TuningFamily]:
    """Families for a kind of device, in tuning order."""
    return [family for family in TUNED_FAMILIES if family.for_vectors == traits.items_take_vectors]
