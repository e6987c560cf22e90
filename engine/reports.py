"""Rows of what the engine reports: devices, drivers, operations, memory, the splits of a plan."""

import msgspec


class DeviceRow(msgspec.Struct, frozen=True):
    """A device as people see it."""

    id: str
    name: str
    vendor: str
    driver: str
    memory: int
    compute_units: int
    is_default: bool
    note: str = ""


class DeviceCheck(msgspec.Struct, frozen=True):
    """What came of one kernel on a device. `seconds` covers building and running it."""

    name: str
    seconds: float
    problem: str = ""


class DriverCheck(msgspec.Struct, frozen=True):
    """What came of a driver. `origin` is the package or folder that brought it; `advice` is the
    next step where there is a problem with it or with a device.
    """

    library: str
    origin: str
    devices: list[DeviceCheck] = []
    problem: str = ""
    advice: str = ""

    @property
    def works(self) -> bool:
        """Whether at least one device ran its kernel."""
        return any(not device.problem for device in self.devices)


class SelfTest(msgspec.Struct, frozen=True):
    """What a self test is to run: cases of one device whose names `pattern` finds something in.

    `speed` measures the large cases after them. Of `shares` that several processes take, `share`
    is this one's, and `first` leaves out so many of its cases from the start.
    """

    device: str
    pattern: str = ""
    quick: bool = False
    speed: bool = False
    first: int = 0
    share: int = 0
    shares: int = 1


class SelfTestPlan(msgspec.Struct, frozen=True, tag=True):
    """How many cases there are, or why none can be run."""

    n_cases: int
    problem: str = ""


class CaseResult(msgspec.Struct, frozen=True, tag=True):
    """What came of one case: started, passed, failed, unsupported, or measured.

    `error` is the NMSE against the host, or how many whole numbers differ; `most` what it may be.
    """

    op: str
    label: str
    status: str
    error: float = 0.0
    most: float = 0.0
    problem: str = ""
    gb_per_s: float = 0.0
    gflop_per_s: float = 0.0


class Tune(msgspec.Struct, frozen=True):
    """What is to be tuned: a device's families of kernels, or one; the result goes to `folder`,
    where none is named to the cache.
    """

    device: str
    family: str = ""
    folder: str = ""


class TunePlan(msgspec.Struct, frozen=True, tag=True):
    """How many trials there are, or why there is no result."""

    n_trials: int
    problem: str = ""


class TrialResult(msgspec.Struct, frozen=True, tag=True):
    """What numbers were tried for a family: `speed` in `unit`, `gain` over the best before."""

    family: str
    values: dict[str, int]
    speed: float
    unit: str
    gain: float
    better: bool


class TuneResult(msgspec.Struct, frozen=True, tag=True):
    """The file, what is in it, and by family what that is worth: speed over the default's."""

    path: str
    values: dict[str, int]
    gains: dict[str, float]


class MemoryEvent(msgspec.Struct, frozen=True):
    """An allocation: allocate, free or refuse. `used` is what the pool's devices hold after it.

    `time_ns` counts from 1970; `name` tells single buffers apart where there is need.
    """

    time_ns: int
    kind: str
    pool: str
    device: str
    component: str
    layer: int | None
    name: str
    size: int
    used: int


class CopyRow(msgspec.Struct, frozen=True):
    """A tensor that a split needs from elsewhere; `origin` None is an input of the step."""

    name: str
    origin: str | None
    size: int


class SplitRow(msgspec.Struct, frozen=True):
    """A run of nodes on one device, and what is brought to it first."""

    device: str
    n_nodes: int
    first: str
    last: str
    copies: list[CopyRow]


class ArenaRow(msgspec.Struct, frozen=True):
    """A device's memory for a graph: `size` bytes, where no order of tensors needs fewer than
    `bound`. Most is in use while `node` runs (empty: while copies are made), by the tensors in
    `alive`, with their bytes, the largest first.
    """

    device: str
    size: int
    bound: int
    node: str
    alive: list[tuple[str, int]]


class BudgetRow(msgspec.Struct, frozen=True):
    """What a device is to hold, and the most it may; `over` is by how much it is too much."""

    device: str
    wanted: int
    limit: int
    over: int
