"""Messages of the self-test and tuner processes, a line of JSON each."""

import msgspec


class Tune(msgspec.Struct, frozen=True):
    """Tune a device's families of kernels, or one; the result goes to `folder`,
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
    """A family's tried numbers: `speed` in `unit`, `gain` over the best before."""

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


class SelfTest(msgspec.Struct, frozen=True):
    """A self test to run: cases of one device whose names match `pattern`.

    `speed` measures the large cases after them, or alone without `checks`. Of `shares` that several
    processes take, `share` is this one's, and `first` leaves out so many of its cases. At most
    `each` cases of an operation are run, 0 for all.
    """

    device: str
    pattern: str = ""
    quick: bool = False
    speed: bool = False
    checks: bool = True
    first: int = 0
    share: int = 0
    shares: int = 1
    each: int = 0


class SelfTestPlan(msgspec.Struct, frozen=True, tag=True):
    """How many cases there are, or why none can be run."""

    n_cases: int
    problem: str = ""


class CaseResult(msgspec.Struct, frozen=True, tag=True):
    """Result of one case: started, passed, failed, unsupported, or measured.

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
