"""Measurements: perplexity, speed, and the times within a step."""

from typing import ClassVar

import msgspec

from engine.protocol.inside.edit import Edit
from engine.protocol.message import Reply, Request, StageName


class PerplexityDone(Reply, frozen=True):
    """Perplexity with its standard error. Arrays are little-endian bytes: `tokens` i32
    [chunks, ctx], `ids` i32 and natural `logp` f32 [chunks, scored, top_k].
    """

    perplexity: float
    error: float
    n_chunks: int
    n_ctx: int
    top_k: int
    tokens: bytes
    ids: bytes = b""
    logp: bytes = b""


class Perplexity(Request[PerplexityDone], frozen=True):
    """Score a text by llama-perplexity's convention, by the model with these edits."""

    stage: ClassVar[StageName] = "score"
    in_parts: ClassVar[bool] = True

    text: str
    n_ctx: int = 512
    top_k: int = 0
    edits: list[Edit] = []


class BenchTest(msgspec.Struct, frozen=True):
    """After `n_depth` tokens, `n_prompt` in batches and then `n_gen` one by one; or a picture of
    `n_rows` embeddings, from its pixels to these.
    """

    n_prompt: int = 0
    n_gen: int = 0
    n_depth: int = 0
    n_rows: int = 0

    @property
    def name(self) -> str:
        """The name as llama-bench spells it: pp512, tg128 @ d4096, pp512+tg128; and img256."""
        parts = (("pp", self.n_prompt), ("tg", self.n_gen), ("img", self.n_rows))
        work = "+".join(f"{word}{n}" for word, n in parts if n)
        return f"{work} @ d{self.n_depth}" if self.n_depth else work

    @property
    def n_timed(self) -> int:
        """Tokens and embeddings that speeds are reckoned from."""
        return self.n_prompt + self.n_gen + self.n_rows


class BenchDone(Reply, frozen=True):
    """Nanoseconds of each repetition."""

    samples_ns: list[int]


class Bench(Request[BenchDone], frozen=True):
    """Time one test. `digest` is the picture of one that has `n_rows`, which the engine holds.

    Refused where the open model does not see.
    """

    stage: ClassVar[StageName] = "bench"

    test: BenchTest
    repetitions: int = 5
    warm_up: bool = True
    digest: str = ""


class ParallelTest(msgspec.Struct, frozen=True):
    """So many sequences read `n_prompt` tokens each, or all the same that are read once, and then
    write `n_gen`, a token of each in a step.
    """

    n_prompt: int
    n_gen: int
    n_sequences: int
    is_shared: bool = False

    @property
    def name(self) -> str:
        """The name in the manner of `BenchTest`: pp128+tg128 x 8."""
        return f"pp{self.n_prompt}+tg{self.n_gen} x {self.n_sequences}"

    @property
    def n_kv(self) -> int:
        """Tokens in the cache at its end."""
        n = self.n_sequences
        return (1 if self.is_shared else n) * self.n_prompt + n * self.n_gen


class ParallelTimed(Reply, frozen=True):
    """Nanoseconds of reading and of writing."""

    read_ns: int
    write_ns: int


class BenchParallel(Request[ParallelTimed], frozen=True):
    """Time several sequences together, once. The model was opened for as many."""

    stage: ClassVar[StageName] = "bench"

    test: ParallelTest
    warm_up: bool = True


class Cost(msgspec.Struct, frozen=True):
    """Time of a group of launches in a step: the median over steps; `by` kernel, op, role or
    split. `bytes` and `flops` are what their shapes need.
    """

    by: str
    name: str
    count: int
    ns: int
    bytes: int
    flops: int


class LaunchRecord(msgspec.Struct, frozen=True):
    """A launch of a step: `start` and `end` in nanoseconds since the step began."""

    split: int
    device: str
    kernel: str
    op: str
    name: str
    start: int
    end: int
    bytes: int
    flops: int


class HostRecord(msgspec.Struct, frozen=True):
    """Work of the host in a step: `start` and `end` in nanoseconds since the step began."""

    name: str
    start: int
    end: int


class SplitRecord(msgspec.Struct, frozen=True):
    """A split of a step: its nodes, how many copies of how many bytes it needs, and by the devices'
    own clocks how long they and its launches take, in nanoseconds; of several steps the median.
    """

    device: str
    n_nodes: int
    first: str
    last: str
    copies: int
    copied: int
    copy_ns: int
    compute_ns: int


class StepRecord(msgspec.Struct, frozen=True):
    """One step: the host's clock from its tokens to its logits, and what ran meanwhile."""

    step_ns: int
    launches: list[LaunchRecord]
    host: list[HostRecord]
    splits: list[SplitRecord]


class StepProfile(msgspec.Struct, frozen=True):
    """The step of median length out of `n_steps`, and what its parts cost in all of them.

    The device's span is `kernels_ns + gaps_ns`; `before_ns` and `after_ns` are the host's alone.
    `plain_ns` is the median of as many steps that nobody recorded.
    """

    n_tokens: int
    n_depth: int
    n_steps: int
    step_ns: int
    plain_ns: int
    before_ns: int
    kernels_ns: int
    gaps_ns: int
    after_ns: int
    costs: list[Cost]
    launches: list[LaunchRecord]
    host: list[HostRecord]
    splits: list[SplitRecord] = []

    @property
    def name(self) -> str:
        """The name of a test that is one such step."""
        if self.n_tokens == 1:
            return BenchTest(n_gen=1, n_depth=self.n_depth).name
        return BenchTest(n_prompt=self.n_tokens, n_depth=self.n_depth).name


class ProfileDone(Reply, frozen=True):
    """A profile a depth, and the device's measured roof (0 where there is none)."""

    profiles: list[StepProfile]
    bytes_per_s: float
    flops_per_s: float


class Profile(Request[ProfileDone], frozen=True):
    """Where a step's time goes: one of `n_tokens` tokens after each of `depths`, `steps` times."""

    stage: ClassVar[StageName] = "bench"

    n_tokens: int
    depths: list[int]
    steps: int = 16


class StepTimes(Reply, frozen=True):
    """A step of one token that was measured during an answer, once a second; `id` is 0.

    `step_ns` is the host's clock from the token to its logits; `launch_ns` is what each launch took
    on its device, split by split in the order of running.
    """

    n_context: int
    step_ns: int
    splits: list[SplitRecord]
    launch_ns: list[int] = []
