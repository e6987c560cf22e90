"""The messages between the app and the worker: `msgspec` structs in MessagePack.

A request carries an `id`; everything the worker says about it carries the same one. Each request
ends with exactly one of its final messages or `Failed`.
"""

from typing import Literal

import msgspec

from engine.errors import BadSetting
from engine.reports import ArenaRow, BudgetRow, DeviceRow, MemoryEvent, SplitRow
from engine.settings import EngineOptions
from engine.timings import BenchTest, SplitRecord, StepProfile


class Message(msgspec.Struct, frozen=True, tag=True):
    """Base of all messages; `id` is the request's."""

    id: int


class Sampling(msgspec.Struct, frozen=True):
    """How the next token is drawn; llama.cpp's order and defaults. `seed` None is random.

    temperature <= 0 is greedy; top_k <= 0, top_p 1 and min_p 0 are off; penalties look at the
    last `penalty_last_n` tokens (-1: all of the context).
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last_n: int = 64
    seed: int | None = None

    def check(self) -> None:
        """Raise `BadSetting` for the first value out of its range."""
        for name, low, high in (
            ("temperature", 0.0, 100.0),
            ("top_p", 0.0, 1.0),
            ("min_p", 0.0, 1.0),
            ("repeat_penalty", 0.01, 100.0),
            ("frequency_penalty", -100.0, 100.0),
            ("presence_penalty", -100.0, 100.0),
            ("top_k", 0, 1 << 31),
            ("penalty_last_n", -1, 1 << 31),
        ):
            value = getattr(self, name)
            if not low <= value <= high:  # also refuses NaN
                raise BadSetting(name, value, f"a number from {low:g} to {high:g}")
        if self.seed is not None and not 0 <= self.seed < 1 << 64:
            raise BadSetting("seed", self.seed, "a whole number from 0 to 2^64 - 1")


class ChatMessage(msgspec.Struct, frozen=True):
    """One turn: `role` is system, user or assistant."""

    role: str
    content: str


class Load(Message, frozen=True, tag="load"):
    """Open a model; the one before is closed first. Ends with `Loaded`."""

    path: str
    options: EngineOptions


class Unload(Message, frozen=True, tag="unload"):
    """Close the model. Ends with `Unloaded`."""


class Predict(Message, frozen=True, tag="predict"):
    """What `Load` would allocate, without loading. Ends with `Memory`."""

    path: str
    options: EngineOptions


class Plan(Message, frozen=True, tag="plan"):
    """As `Predict`, with splits and, if asked, what runs every node. Ends with `Planned`."""

    path: str
    options: EngineOptions
    nodes: bool = False


class Generate(Message, frozen=True, tag="generate"):
    """Answer a chat, or continue `prompt` as it stands. Ends with `Finished`.

    `when_full` shifts the context (the system part is kept) or stops there; `logprobs` asks for
    that many alternatives with each token. An answer that exists in part goes on where `prefix`,
    its text so far, ends; `prefix_tokens`, where they are known, are its ids. What they say beyond
    `prefix` comes as the first piece. `watch` asks for `StepTimes` now and then.
    """

    messages: list[ChatMessage] = []
    prompt: str | None = None
    sampling: Sampling = Sampling()
    max_tokens: int | None = None
    stop: list[str] = []
    logprobs: int = 0
    when_full: Literal["shift", "stop"] = "shift"
    prefix: str = ""
    prefix_tokens: list[int] = []
    watch: bool = False


class Cancel(Message, frozen=True, tag="cancel"):
    """Stop the request of this id within one step; it still ends with its final message."""


class Perplexity(Message, frozen=True, tag="perplexity"):
    """Score a text by llama-perplexity's convention. Ends with `PerplexityDone`."""

    text: str
    n_ctx: int = 512
    top_k: int = 0


class Bench(Message, frozen=True, tag="bench"):
    """Time one test. Ends with `BenchDone`."""

    test: BenchTest
    repetitions: int = 5
    warm_up: bool = True


class Profile(Message, frozen=True, tag="profile"):
    """Where a step's time goes: one of `n_tokens` tokens after each of `depths`, `steps` times.

    Ends with `ProfileDone`.
    """

    n_tokens: int
    depths: list[int]
    steps: int = 16


class ListDevices(Message, frozen=True, tag="devices"):
    """Ends with `Devices`."""


class Shutdown(Message, frozen=True, tag="shutdown"):
    """End the worker; nothing answers."""


Request = (
    Load
    | Unload
    | Predict
    | Plan
    | Generate
    | Cancel
    | Perplexity
    | Bench
    | Profile
    | ListDevices
    | Shutdown
)


class Progress(Message, frozen=True, tag="progress"):
    """How far a stage of a request is: `load`, `compile`, `prefill`, `score` or `bench`.

    `estimate` is the perplexity so far, while scoring.
    """

    stage: str
    done: int
    total: int
    estimate: float | None = None


class Loaded(Message, frozen=True, tag="loaded"):
    """A model is open. `chat` says how messages become text: file, chatml or none.

    `details` are for the log: why layers lie where they do, and the memory records.
    """

    path: str
    name: str
    architecture: str
    device: str
    device_name: str
    n_ctx: int
    n_ctx_train: int
    n_vocab: int
    chat: str
    notes: list[str] = []
    details: list[str] = []


class Unloaded(Message, frozen=True, tag="unloaded"):
    """No model is open any more."""


class Alternative(msgspec.Struct, frozen=True):
    """A token that could have come, with its natural log-probability."""

    token: int
    text: str
    logprob: float


class TokenInfo(msgspec.Struct, frozen=True):
    """A generated token; all but its id only where log-probabilities were asked for."""

    token: int
    logprob: float | None = None
    text: str = ""
    top: list[Alternative] = []


class Piece(Message, frozen=True, tag="piece"):
    """Text that is certain by now, and the tokens drawn since the last piece."""

    text: str
    tokens: list[TokenInfo]


class Stats(msgspec.Struct, frozen=True):
    """Counts and seconds of one answer. `prefill` covers the tokens not taken from the cache."""

    n_prompt: int
    n_cached: int
    n_generated: int
    tokenize_s: float
    prefill_s: float
    first_token_s: float
    decode_s: float
    seed: int
    n_context: int
    n_shifts: int = 0
    n_truncated: int = 0

    @property
    def prefill_rate(self) -> float:
        """Tokens a second while reading the prompt."""
        return (self.n_prompt - self.n_cached) / self.prefill_s if self.prefill_s > 0 else 0.0

    @property
    def decode_rate(self) -> float:
        """Tokens a second after the first."""
        return (self.n_generated - 1) / self.decode_s if self.decode_s > 0 else 0.0


class Finished(Message, frozen=True, tag="finished"):
    """An answer has ended: `stop`, `length`, `context` or `cancelled`."""

    reason: str
    stats: Stats
    matched: str | None = None


class PerplexityDone(Message, frozen=True, tag="perplexity_done"):
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


class BenchDone(Message, frozen=True, tag="bench_done"):
    """Nanoseconds of each repetition."""

    samples_ns: list[int]


class ProfileDone(Message, frozen=True, tag="profile_done"):
    """A profile a depth, and the device's measured roof (0 where there is none)."""

    profiles: list[StepProfile]
    bytes_per_s: float
    flops_per_s: float


class Devices(Message, frozen=True, tag="device_list"):
    """Every device, by priority."""

    devices: list[DeviceRow]


class MemoryRow(msgspec.Struct, frozen=True):
    """Bytes of one device, component and layer (None: of no layer), as planned or as they are.

    `status` is planned, allocated, mapped (file pages, not allocated) or failed.
    """

    device: str
    component: str
    layer: int | None
    size: int
    status: str


class PoolRow(msgspec.Struct, frozen=True):
    """Memory that devices share, in bytes. `free` None where nobody tells; `source` says who does.

    `limit` is what the engine allows itself, `used` what it holds.
    """

    name: str
    devices: list[str]
    total: int
    free: int | None
    limit: int
    used: int
    source: str


class Memory(Message, frozen=True, tag="memory"):
    """What memory is planned and held now; sent with `id` 0 when it changes by itself.

    The model has layers 0 to n_layer - 1; rows of layer `n_layer` are the output block's.
    """

    rows: list[MemoryRow]
    pools: list[PoolRow]
    n_layer: int
    fits: bool = True
    shortfall: int = 0


class MemoryEvents(Message, frozen=True, tag="memory_events"):
    """What was allocated and freed since the last such message, in order; sent with `id` 0."""

    events: list[MemoryEvent]


class StepTimes(Message, frozen=True, tag="step_times"):
    """A step of one token that was measured while an answer is written, once a second; `id` is 0.

    `step_ns` is the host's clock from the token to its logits.
    """

    n_context: int
    step_ns: int
    splits: list[SplitRecord]


class Planned(Message, frozen=True, tag="planned"):
    """A placement, with what it takes. `layers[i]` is the device of layer i, the last one the
    output block's; `overrides` are pattern and device; `splits` are of one token, `crossing` the
    bytes that go between devices for it. `problem` says what does not fit, `warnings` what is slow;
    `nodes` is text. `arenas` are those of a full batch over whole caches.
    """

    name: str
    architecture: str
    n_ctx: int
    kv: str
    layers: list[str]
    overrides: list[tuple[str, str]]
    reasons: list[str]
    memory: Memory
    budgets: list[BudgetRow]
    log: list[str]
    splits: list[SplitRow]
    arenas: list[ArenaRow]
    crossing: int
    warnings: list[str] = []
    problem: str = ""
    nodes: str = ""


class Failed(Message, frozen=True, tag="failed"):
    """A request ended with an error; `kind` is its class in `engine.errors`."""

    kind: str
    message: str


Reply = (
    Progress
    | Loaded
    | Unloaded
    | Piece
    | Finished
    | PerplexityDone
    | BenchDone
    | ProfileDone
    | Devices
    | Memory
    | MemoryEvents
    | StepTimes
    | Planned
    | Failed
)
