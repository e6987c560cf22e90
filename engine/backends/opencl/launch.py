"""A launch as data: what to enqueue, without a device. Family files make these from nodes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from engine.backends.opencl.tuned import Tuned, default
from engine.device.backend import TypeOf
from engine.graph.tensor import Tensor
from engine.settings import ActivationBits

HALVES = frozenset({"HMMA", "WMMA", "MFMA", "DPAS8", "DPAS16", "HALVES"})
"""Ways to multiply fragments of halves; HALVES is that without matrix units."""


COUNTERS = 1024
"""How many there are for the launches of a queue."""


class Shared(Enum):
    """Memory of the queue itself, which its launches use one after the other."""

    COUNTERS = "counters"
    """32-bit integers, 0 before and behind each launch (tiled_normed.cl, attention_lanes.cl)."""


Arg = Tensor | Shared | np.int32 | np.int64 | np.float32 | None
Args = Mapping[str, Arg]


@dataclass(frozen=True)
class Launch:
    """One enqueue of `kernel` from `kernels_cl/<family>.cl`, built with `defines`.

    `args` are named as the kernel's parameters and stand in their order. A tensor `x` becomes two
    of them: its buffer and a 64-bit byte offset (`__global char *x_buf, long x_off`); None becomes
    a null buffer and 0, `Shared` memory its buffer and 0.

    Where it `packs`, the kernel takes all buffers first, and behind them offsets and numbers in one
    struct, `NUMBERS_GIVEN`: PoCL takes 0.1 us for each argument.
    """

    family: str
    kernel: str
    args: Args
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None = None
    defines: Mapping[str, int | str] = field(default_factory=dict)
    packs: bool = False

    @property
    def name(self) -> str:
        """The name in recordings."""
        return f"{self.family}.{self.kernel}"


@dataclass(frozen=True)
class DeviceTraits:
    """The device's properties that launches depend on; all others belong to the driver's code.

    `vector_ints` is how many 32-bit integers the processor's own vectors hold, and `vector_bytes`
    whether these have instructions for bytes, as x86 has from AVX2 on; `local_memory` is bytes a
    work-group; `vnni`: whether four products of bytes are added to 32 bits at once, in the
    widest vectors. `activation_bits` is a person's choice: 12, or 8 where that is quicker. A driver
    has `slow_launches` where its threads sleep between them: more of a row's work is put into one
    launch then, whose items wait for one another. `dot4` names the instruction that adds four
    products of bytes (kernels_cl/parts/intrinsics.cl), `matrix` the one that a wave multiplies
    fragments of matrices with (kernels_cl/parts/fragments.cl), if they were found. `halves` is the
    way to multiply fragments of halves: `matrix`, or another where that multiplies bytes.
    Processors have no `own_local_memory`: there it is a part of all memory, and bringing keys to it
    gains nothing.
    """

    is_cpu: bool
    compute_units: int
    max_work_group: int
    local_memory: int
    vector_ints: int = 1
    vector_bytes: bool = False
    vnni: bool = False
    activation_bits: ActivationBits = 12
    slow_launches: bool = False
    dot4: str = ""
    matrix: str = ""
    halves: str = ""
    own_local_memory: bool = True
    tuned: Tuned = field(default_factory=default)

    @property
    def items_take_vectors(self) -> bool:
        """True if a work-item computes with vectors (CPUs), false if it is one lane (GPUs)."""
        return self.is_cpu

    @property
    def matrix_halves(self) -> bool:
        """True if its matrix units multiply halves, and not bytes."""
        return self.matrix in HALVES


MakeLaunches = Callable[[Tensor, TypeOf, DeviceTraits], Sequence[Launch]]
