"""The contract of a model: all that the rest of the engine needs of an architecture.

A module of `engine.models.text` offers three names, found by `general.architecture`:

    Params   hyperparameters from metadata, each with its range          (TextParams)
    Weights  the file's tensors as fields; their names stand on the fields (TextWeights)
    Model    what a layer keeps between steps, and the forward pass       (TextModel)

Most architectures are a `Decoder` (engine/models/decoder.py) and say only what differs.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from pkgutil import iter_modules
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from engine.errors import NotSupported
from engine.graph.tensor import Tensor
from engine.layers.step import LayerCache, Pass
from engine.models.constants import Constant, Values
from engine.models.kept import Kept


class TextParams(Protocol):
    """Hyperparameters. Ranges of single keys stand on the fields (engine/weights/params.py)."""

    @property
    def n_layer(self) -> int:
        """How many blocks the tensors must make."""
        ...

    @property
    def n_block(self) -> int:
        """How many the file counts: behind the last layer some may stand that predict further
        tokens.
        """
        ...

    @property
    def n_ctx_train(self) -> int:
        """The longest context it was trained for."""
        ...

    @property
    def n_ctx_exact(self) -> int:
        """The longest context that is computed as it was trained; 0: that one."""
        ...

    @property
    def n_embd(self) -> int:
        """Channels of what enters the first block: an embedding, or a row of a picture."""
        ...

    @property
    def eps(self) -> float:
        """The epsilon that norms add before the root."""
        ...

    def problem(self) -> str:
        """A contradiction among the parameters, naming the keys; empty where there is none."""
        ...

    def constants(self) -> Sequence[Constant]:
        """Tensors that become numbers of the forward pass instead of weights."""
        ...


class TextWeights(Protocol):
    """Tensors. `blocks` become layers 0 to n_layer - 1; what is marked `rows` is looked up on the
    host, and all else belongs to the output block (engine/weights/bind.py).
    """

    @property
    def blocks(self) -> Sequence[object]: ...


class Output(StrEnum):
    """A result of a model, for each token that is wanted."""

    LOGITS = "logits"
    EMBEDDINGS = "embeddings"
    BEST = "best"
    """The `N_BEST` largest logits, and behind them their tokens: `ops.best`."""


N_BEST = 64


P = TypeVar("P", bound=TextParams)
W = TypeVar("W", bound=TextWeights)


class TextModel(ABC, Generic[P, W]):
    """A bound architecture. `constants` holds, by name, those of `params.constants()` that are in
    the file, in reversed (NumPy) shape; `n_ctx` is the context it was opened with.
    """

    gives: ClassVar[frozenset[Output]] = frozenset({Output.LOGITS})
    biased: ClassVar[bool] = False
    """True if scores of cached keys have a learned bias: no fused attention computes them."""
    encoder: "TextModel[Any, Any] | None" = None
    """The model that reads a prompt as a whole, where this one only writes the answer."""
    start: int | None = None
    """The first token of such an answer."""
    whole: ClassVar[bool] = False
    """Whether tokens also see those behind them, so that a text is computed in one step."""

    def __init__(self, params: P, weights: W, constants: Mapping[str, Values], n_ctx: int) -> None:
        self.params = params
        self.weights = weights
        self.constants = constants
        self.n_ctx = n_ctx

    @property
    def n_deepstack(self) -> int | None:
        """Behind how many of the first layers further rows of pictures are added; None: as many as
        there are.
        """
        return None

    @property
    def joins_pictures(self) -> bool:
        """True if rows of a picture see each other where its tower leaves that to the text."""
        return False

    def n_heads(self, layer: int) -> int:
        """The heads of a layer's attention that can be separated; 0: none."""
        return 0

    @abstractmethod
    def kept(self) -> Sequence[Kept]:
        """The state that each layer keeps between steps, from layer 0 up."""

    @abstractmethod
    def hidden(self, p: Pass, caches: Sequence[LayerCache | None]) -> Tensor:
        """The last layer's normalised output f32 [E, n_outputs]; `caches[i]` is what `kept()[i]`
        became, None where that is nothing.
        """

    def pooled(self, rows: Values) -> Values:
        """An embedding f32 [E'] of what `hidden` gave of a text, pooled to [E]; here it itself."""
        return rows

    def logits(self, x: Tensor) -> Tensor:
        """f32 [V, n_outputs] of what `hidden` gives. Raises `NotSupported` where there are none."""
        raise NotSupported("logits of this model")


class Architecture(Protocol):
    """A module of `engine.models.text`."""

    Params: type[TextParams]
    Weights: type[TextWeights]
    Model: type[TextModel[TextParams, TextWeights]]


@cache
def modules_in(folders: tuple[str, ...]) -> list[str]:
    """Return the names of the modules in a package's folders, which are looked through once: each
    model that is opened calls it twice.
    """
    return [module.name for module in iter_modules(folders)]
