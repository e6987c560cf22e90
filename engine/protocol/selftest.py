"""Messages of an `engine.selftest` process, a line of JSON each."""

import msgspec


class SelfTest(msgspec.Struct, frozen=True):
    """A self test to run: cases of one device whose names match `pattern`.

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
