"""Decoders that carry a state from token to token, in all layers or in some."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, TypeVar

from engine.layers.recurrent import GatedDeltaNet, Mamba, Mamba2, ShortConv
from engine.layers.spec import BlockSpec, RecurrenceSpec
from engine.models.decoder import HEAD, Decoder, DecoderParams, W
from engine.models.kept import State
from engine.weights.params import COUNT, WIDTH, Meta, Range

KERNEL = Range(2, 64)
"""Tokens that a convolution sees."""


@dataclass(frozen=True, kw_only=True)
class RecurrentParams(DecoderParams):
    """Parameters of heads with a state [dim, size], by its GGUF keys; files may say that there are
    no heads of attention.
    """

    heads: Annotated[tuple[int, ...], Meta("attention.head_count", HEAD, by_layer=True)] = (0,)
    kernel: Annotated[int, Meta("ssm.conv_kernel", KERNEL)]
    inner: Annotated[int, Meta("ssm.inner_size", WIDTH)]
    size: Annotated[int, Meta("ssm.state_size", COUNT)]
    state_heads: Annotated[int, Meta("ssm.time_step_rank", COUNT)]
    groups: Annotated[int, Meta("ssm.group_count", HEAD)] = 0

    @property
    def head_dim(self) -> int:
        return super().head_dim if any(self.heads) else 2

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        heads, groups = self.state_heads, self.groups or 1
        if self.inner % heads or heads % groups:
            return (
                f"ssm.inner_size {self.inner}, time_step_rank {heads} and group_count {groups}"
                " do not divide each other"
            )
        return super().problem() if any(self.heads) else ""

    def recurrence(self) -> RecurrenceSpec:
        """The heads of a layer's state."""
        dim = self.inner // self.state_heads
        return RecurrenceSpec(dim, self.size, self.state_heads, self.groups or 1)

    def carried(self) -> State:
        """The state of such a layer: its convolution sees the values and both kinds of keys."""
        spec = self.recurrence()
        channels = self.inner + 2 * spec.size * spec.groups
        return State(channels, self.kernel, spec.elements)


MIXERS = (ShortConv, GatedDeltaNet, Mamba, Mamba2)


def carries_state(block: object) -> bool:
    """True if what mixes the tokens of a block carries a state: its tensors say so, whatever
    numbers the file has.
    """
    return isinstance(getattr(block, "attn", None), MIXERS)


R = TypeVar("R", bound=RecurrentParams)


class RecurrentDecoder(Decoder[R, W]):
    """Layers whose mixer carries a state, by their tensors; the others attend."""

    def recurrence(self) -> RecurrenceSpec:
        """The heads of a layer's state."""
        return self.params.recurrence()

    def spec(self, i: int) -> BlockSpec:
        return replace(super().spec(i), recurrence=self.recurrence())

    def state(self, i: int) -> State | None:
        return self.params.carried() if carries_state(self.weights.blocks[i]) else None


@dataclass(frozen=True, kw_only=True)
class RwkvParams(DecoderParams):
    """Hyperparameters by their GGUF keys; there are no heads of attention. Each layer keeps the
    last token of `shifts` inputs: its own, and the feed-forward's.
    """

    shifts: ClassVar[int] = 1

    heads: Annotated[tuple[int, ...], Meta("attention.head_count", HEAD, by_layer=True)] = (0,)
    size: Annotated[int, Meta("wkv.head_size", COUNT)]
    n_shifts: Annotated[int, Meta("token_shift_count", COUNT)] = 2

    @property
    def head_dim(self) -> int:
        return 2

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if self.n_embd % self.size:
            return f"wkv.head_size is {self.size}, which does not divide {self.n_embd} channels"
        if self.n_shifts != self.shifts:
            return f"token_shift_count is {self.n_shifts}; expected {self.shifts}"
        return ""

    def recurrence(self) -> RecurrenceSpec:
        """The heads of a layer's state."""
        heads = self.n_embd // self.size
        return RecurrenceSpec(self.size, self.size, heads, heads)

    def carried(self) -> State:
        """The state of a layer."""
        fed = self.n_embd if self.shifts > 1 else 0
        return State(self.n_embd, 2, self.recurrence().elements, fed)


K = TypeVar("K", bound=RwkvParams)


class RwkvDecoder(Decoder[K, W]):
    """Layers of a state each, which know no positions."""

    def rope(self, i: int) -> None:
        return None

    def spec(self, i: int) -> BlockSpec:
        return replace(super().spec(i), recurrence=self.params.recurrence())

    def state(self, i: int) -> State:
        return self.params.carried()
