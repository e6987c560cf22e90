"""A recorded answer: every launch of its steps. Arrays are little-endian bytes."""

from typing import ClassVar, Literal

import msgspec

from engine.protocol.measure import HostRecord, SplitRecord
from engine.protocol.message import Reply, Request, StageName


class LaunchKind(msgspec.Struct, frozen=True):
    """A launch of a step, whenever it runs."""

    split: int
    device: str
    kernel: str
    op: str
    name: str


Phase = Literal["prefill", "decode"]


class RecordedStep(msgspec.Struct, frozen=True):
    """A step of `n_tokens` tokens after `n_context`, from `start`, in nanoseconds since the first
    recorded step began, for `step_ns` by the host's clock.

    Of each launch: its place in `AnswerRecorded.kinds` i32, `starts` and `ends` i64 in nanoseconds
    since the step began, the bytes (`sizes`) and operations (`flops`) i64 that its shapes need.
    """

    phase: Phase
    n_tokens: int
    n_context: int
    start: int
    step_ns: int
    kinds: bytes
    starts: bytes
    ends: bytes
    sizes: bytes
    flops: bytes
    host: list[HostRecord]
    splits: list[SplitRecord]


class AnswerRecorded(Reply, frozen=True):
    """The steps of an answer that were recorded, in order.

    Now and then a step of one token runs unrecorded: `plain_ns` and `recorded_ns` are medians of
    both kinds from the step's begin until all about it is known, 0 where there were none; their
    ratio is what recording costs. Of a long answer every `every`th step is kept; `n_dropped` are
    those that ran recorded and were let go.
    """

    kinds: list[LaunchKind]
    steps: list[RecordedStep]
    plain_ns: int
    recorded_ns: int
    every: int
    n_dropped: int


class DeviceRoof(msgspec.Struct, frozen=True):
    """The most a device does, as two plain kernels measure it: bytes read and 32-bit float
    operations per second; 0 where there was no memory to measure.
    """

    device: str
    bytes_per_s: float
    flops_per_s: float


class RoofsMeasured(Reply, frozen=True):
    """Roofs of the devices that hold the open model, except the host."""

    roofs: list[DeviceRoof]


class MeasureRoofs(Request[RoofsMeasured], frozen=True):
    """Measure what the open model's devices can do, about a second each."""

    stage: ClassVar[StageName] = "bench"
