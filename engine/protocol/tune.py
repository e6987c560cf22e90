"""Messages of an `engine.tuner` process, a line of JSON each."""

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
