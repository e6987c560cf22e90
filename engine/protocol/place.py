"""A model is placed by hand: what a rule would take, and how fast it would be."""

from typing import ClassVar, Literal

import msgspec

from engine.protocol.load import Loaded
from engine.protocol.memory import PlannedMemory
from engine.protocol.message import Reply, Request, StageName
from engine.protocol.plan import BudgetRow, Speed, SplitRow
from engine.settings import EngineOptions

PartName = Literal["attention", "feed_forward", "experts", "cache", "vision", "other"]


class Tile(msgspec.Struct, frozen=True):
    """A device's share of a part of a layer: `size` bytes allocated, `mapped` in the file's pages.

    Layer `n_layer` is the output block. `pattern` is a regular expression that names the part's
    weights in this layer and no others, as a rule has them; empty where no pattern moves it. The
    tiles of a device and its rows of graph, input, staging and pictures are what it is to hold.
    """

    layer: int
    device: str
    part: PartName
    size: int
    mapped: int = 0
    pattern: str = ""


class Repriced(Reply, frozen=True):
    """A placement with what it takes, as `Planned` has it; `budgets` has every device in question.

    `causes[i]` says why layer i lies where it does, `labels[i]` what makes it unlike others (window
    512, 8 of 64 experts). `rule` is the whole placement in the shortest words of `place`,
    `llama_cpp` the same in llama.cpp's flags, `llama_cpp_notes` what these cannot say. `problem`
    says what does not fit. `speed` is None as long as a device in use was not measured
    (`MeasureDevices`), and where the host computes layers.
    """

    n_layer: int
    layers: list[str]
    overrides: list[tuple[str, str]]
    reasons: list[str]
    causes: list[str]
    labels: list[list[str]]
    tiles: list[Tile]
    memory: PlannedMemory
    budgets: list[BudgetRow]
    splits: list[SplitRow]
    crossing: int
    warnings: list[str]
    problem: str
    rule: str
    llama_cpp: str
    llama_cpp_notes: list[str] = []
    speed: Speed | None = None


class Reprice(Request[Repriced], frozen=True):
    """Like `DescribePlan`, quick when repeated for the same file with another `place`.

    What does not depend on the rule is kept until another file or other options are asked about,
    or the engine closes its model.
    """

    beside: ClassVar[bool] = True

    path: str
    options: EngineOptions
    depth: int = 0


class DeviceSpeed(msgspec.Struct, frozen=True):
    """A device that was measured, and how fast it would decode with all layers of the model."""

    device: str
    name: str
    driver: str
    tokens_per_s: float


class DevicesMeasured(Reply, frozen=True):
    """Speeds of the options' devices, except the host. They are kept, also for other programs."""

    devices: list[DeviceSpeed]


class MeasureDevices(Request[DevicesMeasured], frozen=True):
    """Time this model's layers on each device and on each two of them in turn, some seconds for
    each, with at most 0.5 GiB of memory; what was timed before only if wanted `again`.
    """

    stage: ClassVar[StageName] = "bench"

    path: str
    options: EngineOptions
    again: bool = False


class Moved(Reply, frozen=True):
    """The open model lies otherwise. `n_uploaded` weights of `uploaded_bytes` were read from the
    file, `copied_bytes` of weights and caches went from one buffer to another. `n_kept` tokens are
    still in the caches.
    """

    loaded: Loaded
    n_uploaded: int
    uploaded_bytes: int
    copied_bytes: int
    n_kept: int


class Move(Request[Moved], frozen=True):
    """Place the open model by other options, of which only `place`, `gpu_layers` and `device` may
    differ from those it was opened with: others need `Load`. What stays where it was is left there,
    and the caches' contents go with their layers. Where it fails or is cancelled, all is as before.
    """

    stage: ClassVar[StageName] = "load"

    options: EngineOptions
