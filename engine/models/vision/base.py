"""The contract of a vision tower: all that the rest of the engine needs of a projector's family.

A module of `engine.models.vision` offers three names:

    Params   hyperparameters from metadata, each with its range          (TowerParams)
    Weights  the file's tensors as fields; their names stand on the fields (TowerWeights)
    Model    plan, inputs and forward pass, and which files it is for     (Tower)

Metadata keys are `clip.vision.*` in an mmproj and `<architecture>.vision.*` in a single file, so
that one `Meta("vision.block_count", ...)` reads both.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.graph.tensor import Tensor
from engine.images.patches import Floats, cut, neighbours
from engine.images.plan import ImagePlan, Limits, Size, View
from engine.images.resize import Colour, Filter, Rule
from engine.layers.vision.tower import TowerPass, TowerStep
from engine.models.constants import Constant, Values
from engine.weights.params import COUNT, EPSILON, Meta, Range

SIDE = Range(1, 1 << 14)
"""Of a picture or a patch, in pixels."""
BLOCKS = Range(1, 1 << 10)
"""Of a tower: the largest have about 60."""
CHANNELS = Range(1, 1 << 16)
"""Of a tower's vectors."""
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
COLOUR = Range(-16, 16)
SPREAD = Range(1e-3, 16)

Places = NDArray[np.int32]


@dataclass(frozen=True)
class TextHost:
    """The text model's facts that a tower depends on.

    `rms_eps` is what that model's norms add; `n_layer` its output block's number, to which a
    tower's memory is counted; `n_deepstack` how many of its layers add further rows, None where
    the file does not say; `joins_pictures` that rows of a picture see each other where the tower
    leaves that to the text; `has_axes` that its keys turn by rows and columns.
    """

    arch: str
    n_embd: int
    n_layer: int
    rms_eps: float
    has_token: Callable[[str], bool]
    n_deepstack: int | None = None
    joins_pictures: bool = False
    has_axes: bool = True


@dataclass(frozen=True, kw_only=True)
class TowerParams:
    """Hyperparameters that towers share, by their GGUF keys."""

    n_layer: Annotated[int, Meta("vision.block_count", BLOCKS)]
    n_embd: Annotated[int, Meta("vision.embedding_length", CHANNELS)]
    n_head: Annotated[int, Meta("vision.attention.head_count", COUNT)]
    image_size: Annotated[int, Meta("vision.image_size", SIDE)]
    patch: Annotated[int, Meta("vision.patch_size", SIDE)]
    eps: Annotated[
        float,
        Meta("vision.attention.layer_norm_epsilon", EPSILON, alt=("vision.layer_norm_epsilon",)),
    ] = 1e-6
    head_size: Annotated[
        int,
        Meta(
            "vision.attention.head_dim",
            Range(1, 1 << 16, or_zero=True),
            alt=("vision.attention.key_length",),
        ),
    ] = 0
    mean: Annotated[Colour, Meta("vision.image_mean", COLOUR)] = (0.5, 0.5, 0.5)
    std: Annotated[Colour, Meta("vision.image_std", SPREAD)] = (0.5, 0.5, 0.5)

    @property
    def head_dim(self) -> int:
        return self.head_size or self.n_embd // self.n_head

    @property
    def side(self) -> int:
        """Patches along a side of the picture that the file was trained with."""
        return self.image_size // self.patch

    def problem(self) -> str:
        """A contradiction among the parameters, naming the keys; empty where there is none."""
        if not self.head_size and self.n_embd % self.n_head:
            key = f"vision.embedding_length {self.n_embd}"
            return f"{key} is not a multiple of vision.attention.head_count {self.n_head}"
        if 0 < self.image_size < self.patch:
            key = f"vision.image_size {self.image_size}"
            return f"{key} is less than vision.patch_size {self.patch}"
        return ""

    def constants(self) -> Sequence[Constant]:
        """Tensors that become numbers instead of weights."""
        return ()


class TowerWeights(Protocol):
    """Tensors; `blocks` are as many as `n_layer` says."""

    @property
    def blocks(self) -> Sequence[object]: ...


P = TypeVar("P", bound=TowerParams)
W = TypeVar("W", bound=TowerWeights)


class Tower(ABC, Generic[P, W]):
    """A bound tower. `constants` holds, by name, those of `params.constants()` that are in the
    file; `is_single` is true of the file that Ollama makes from an mmproj.
    """

    projectors: ClassVar[tuple[str, ...]]
    """`clip.projector_type` of the mmproj files it is for."""
    architectures: ClassVar[tuple[str, ...]] = ()
    """`general.architecture` of the single files it is for."""
    hosts: ClassVar[tuple[str, ...]]
    """Architectures of text models that can read its rows."""
    tokens: ClassVar[tuple[str, ...]] = ()
    """What the text model's vocabulary must have."""
    markers: ClassVar[tuple[str, ...]]
    """What chat templates print for a picture; the whole text is replaced by the plan's pieces."""
    axes: ClassVar[bool] = False
    """Its rows stand at places of several axes (M-RoPE)."""
    glue: ClassVar[str] = ""
    """What follows a picture where the chat template takes texts alone."""
    ignored: ClassVar[tuple[str, ...]] = ()
    """Tensors that may be in the file and are not needed."""
    filter: ClassVar[Filter] = "bilinear"
    """How its pictures are resized."""
    fill: ClassVar[tuple[int, int, int]] = (0, 0, 0)
    """The colour of padding."""
    learned: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Rows that pieces name (`Learned`): what the tensor [E] may be called in the file."""

    def __init__(
        self,
        params: P,
        weights: W,
        constants: Mapping[str, Values],
        host: TextHost,
        is_single: bool,
    ) -> None:
        self.params = params
        self.weights = weights
        self.constants = constants
        self.host = host
        self.is_single = is_single

    def missing(self, learned: Mapping[str, Values]) -> Sequence[str]:
        """Tensors that may be absent, but not beside what else this file holds; `learned` are the
        rows that it does.
        """
        return ()

    @property
    def deepstack(self) -> int:
        """How many further rows each place has, to be added after the text's first layers."""
        return 0

    @abstractmethod
    def plan(self, size: Size, limits: Limits) -> ImagePlan:
        """Plan a picture of this size. Needs no pixels and no device."""

    @property
    def rule(self) -> Rule:
        """From the picture to a view's float32 pixels."""
        return Rule(self.filter, self.params.mean, self.params.std, self.fill)

    def step(self, pixels: Callable[[View], Floats], plan: ImagePlan, view: int) -> TowerStep:
        """The inputs of one of the plan's `passes`; `pixels` makes a view's [h, w, 3] by `rule`."""
        together = len(self.passes(plan)) < len(plan.views)
        views = plan.views if together else (plan.views[view],)
        return self.inputs(np.concatenate([pixels(v) for v in views]), plan, view)

    @abstractmethod
    def inputs(self, pixels: Floats, plan: ImagePlan, view: int) -> TowerStep:
        """Inputs of the forward pass, from one view's pixels [h, w, 3]. Where one pass makes the
        rows of all views, of all of these, one below the other.
        """

    def square(self, pixels: Floats, cells: int) -> TowerStep:
        """The inputs of towers whose views are all `image_size` squares and whose positions are
        numbered row by row: cells x cells neighbouring patches become one row.
        """
        side = self.params.side
        order = neighbours(side, side, cells)
        inputs = {"patches": cut(pixels, self.params.patch)[order], "positions": order}
        return TowerStep(side * side, side * side // cells**2, inputs)

    @abstractmethod
    def forward(self, p: TowerPass) -> Tensor:
        """Rows f32 [E * (1 + deepstack), rows], in the order of the view's `grid`."""

    @abstractmethod
    def worst(self, limits: Limits) -> int:
        """Patches of the largest view within the limits, as a bucket."""

    def bucket(self, n: int) -> int:
        """The size of the plan that n patches run on: where every view has as many, that."""
        return self.params.side**2

    def passes(self, plan: ImagePlan) -> Sequence[int]:
        """The views that are computed, in order; one pass may make the rows of all."""
        return range(len(plan.views))

    def places(self, plan: ImagePlan, start: int, number: int) -> Places:
        """i32 [4, rows]: where each of the plan's rows stands for a text model whose places have
        several axes, if the picture begins at `start` and `number` pictures come before it; running
        numbers elsewhere.
        """
        return np.tile(np.arange(start, start + plan.rows, dtype=np.int32), (4, 1))


class Family(Protocol):
    """A module of `engine.models.vision`."""

    Params: type[TowerParams]
    Weights: type[TowerWeights]
    Model: type[Tower[TowerParams, TowerWeights]]
