"""Lowered nodes, for backends that fuse operations and that lay weights out anew.

Activations for weights in row tiles lie in panels. A source that is a RESULT is not read: the
launch of the node that has it writes it, besides the node's own storage.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal, NamedTuple

from engine.graph.node import Arguments
from engine.graph.ops.attention import FusedAttention
from engine.graph.ops.experts import Route
from engine.graph.ops.norm import Argsort
from engine.graph.ops.recurrent import CausalConv, DeltaNet, SsmScan, TokenShift, Wkv
from engine.graph.tensor import Tensor


class Panels(NamedTuple):
    """How activations wait for a product: so many `rows` together, in 12 or 8 bits, in the 16
    of halves, or in the 32 of f32 for weights that are floats. 12 bits may be two `digits` of a
    byte.
    """

    rows: int
    bits: Literal[8, 12, 16, 32]
    digits: bool = False


@dataclass(frozen=True)
class Quantize(Arguments):
    """The rows of x in panels."""

    x: Tensor
    _: KW_ONLY
    panels: Panels

    @property
    def n_rows(self) -> int:
        """Rows of x, without those that fill the last panel."""
        return self.x.nelements // self.x.shape[0]


@dataclass(frozen=True)
class MatmulTiled(Arguments):
    """Up to three products of the same x, a QUANTIZE: the node is that of `a`, y1 and y2 (RESULTs)
    are those of a1 and a2; to each its bias is added, where there is one.
    """

    a: Tensor
    x: Tensor
    a1: Tensor | None = None
    y1: Tensor | None = None
    a2: Tensor | None = None
    y2: Tensor | None = None
    bias: Tensor | None = None
    bias1: Tensor | None = None
    bias2: Tensor | None = None

    @property
    def weights(self) -> tuple[Tensor, ...]:
        return tuple(a for a in (self.a, self.a1, self.a2) if a is not None)

    @property
    def has_biases(self) -> bool:
        return any(b is not None for b in (self.bias, self.bias1, self.bias2))


@dataclass(frozen=True)
class MatmulAdd(Arguments):
    """The product of `a` and x, a QUANTIZE, plus a bias or none, times `factor`, and what is added
    to that.
    """

    a: Tensor
    x: Tensor
    added: Tensor
    bias: Tensor | None = None
    _: KW_ONLY
    factor: float = 1.0


@dataclass(frozen=True)
class MatmulGated(Arguments):
    """act(gate x) * (up x) in panels, x being a QUANTIZE. `act`: silu or a gelu."""

    gate: Tensor
    x: Tensor
    up: Tensor
    _: KW_ONLY
    act: str
    panels: Panels


@dataclass(frozen=True)
class MatmulExperts(Arguments):
    """Experts in row tiles times x, a QUANTIZE. `ids` are grouped by expert if a GROUP_IDS. Of
    `bias` [M, X] each expert's own row is added.
    """

    a: Tensor
    x: Tensor
    ids: Tensor
    bias: Tensor | None = None


@dataclass(frozen=True)
class GroupIds(Arguments):
    """Pairs of token and expert, put together by expert."""

    ids: Tensor
    _: KW_ONLY
    experts: int


@dataclass(frozen=True)
class LoweredRoute(Route):
    """The choice of experts, and their `weights`, a RESULT, where they are wanted with it."""

    weights: Tensor | None = None
    gains: Tensor | None = None
    _: KW_ONLY
    normalised: bool = False
    scale: float = 1.0


@dataclass(frozen=True)
class CombineAdd(Arguments):
    """The weighted sum of what experts made, and one or two further terms."""

    weights: Tensor
    y: Tensor
    added: Tensor | None = None
    more: Tensor | None = None


NormKind = Literal["none", "rms", "layer"]


@dataclass(frozen=True)
class NormChain(Arguments):
    """h = norm1(x) * weight1 + bias1 + added, where there is any of that; else h = x. With `panels`
    the node is norm2(h) * weight2 + bias2 in panels, and `total`, a RESULT, is h; else it is h.
    """

    x: Tensor
    weight1: Tensor | None = None
    bias1: Tensor | None = None
    added: Tensor | None = None
    weight2: Tensor | None = None
    bias2: Tensor | None = None
    total: Tensor | None = None
    _: KW_ONLY
    norm1: NormKind = "none"
    norm2: NormKind = "none"
    eps1: float = 0.0
    eps2: float = 0.0
    panels: Panels | None = None

    @property
    def writes(self) -> bool:
        """True if h is something else than x."""
        return self.norm1 != "none" or self.added is not None


@dataclass(frozen=True)
class NormedRow(Arguments):
    """One row that products meet as norm(h) * weight2 in 12 bits. With `added` h is
    norm(x) * weight1 + added, and `total`, a RESULT; else it is x. Norms are rms.

    Each work-item makes it for itself, in its part of `own`, a RESULT [bytes, items]; groups of
    lanes do so without.
    """

    x: Tensor
    weight1: Tensor | None
    added: Tensor | None
    weight2: Tensor | None
    total: Tensor | None
    own: Tensor | None
    _: KW_ONLY
    eps1: float
    eps2: float


@dataclass(frozen=True)
class NormMatmul(NormedRow):
    """Up to three products of such a row, as in `MatmulTiled`."""

    a: Tensor
    a1: Tensor | None = None
    y1: Tensor | None = None
    a2: Tensor | None = None
    y2: Tensor | None = None
    bias: Tensor | None = None
    bias1: Tensor | None = None
    bias2: Tensor | None = None


@dataclass(frozen=True)
class NormGated(NormedRow):
    """act(gate x) * (up x) of such a row in 12 bits."""

    gate: Tensor
    up: Tensor
    _: KW_ONLY
    act: str


@dataclass(frozen=True)
class FeedChain(Arguments):
    """The chain behind the attention of one row: h = mix x + added, act(gate n) * (up n) of
    n = norm(h) * weight, and the node: the product of `down` and that, plus h. h and what `down`
    meets are RESULTs, and so is `own`, as a `NormedRow` has it.
    """

    mix: Tensor
    x: Tensor
    added: Tensor
    h: Tensor
    weight: Tensor | None
    own: Tensor
    gate: Tensor
    up: Tensor
    q: Tensor
    down: Tensor
    _: KW_ONLY
    act: str
    eps: float


@dataclass(frozen=True)
class ActivationQuantize(Arguments):
    """act(gate), times `up` where given, in panels. `act`: silu or a gelu."""

    gate: Tensor
    up: Tensor | None
    _: KW_ONLY
    act: str
    panels: Panels


@dataclass(frozen=True)
class RopeStore(Arguments):
    """Rope of q (the node) and of k, which goes into rows `ids` of its cache, as v does into its
    own; q and k are normalised before where there are weights. The caches are RESULTs.

    Without a table nothing turns, and there is no q: k's cache is the node then.
    """

    q: Tensor | None
    k: Tensor
    v: Tensor
    table: Tensor | None
    ids: Tensor
    q_weight: Tensor | None
    k_weight: Tensor | None
    k_cache: Tensor | None
    v_cache: Tensor
    _: KW_ONLY
    neox: bool = False
    q_eps: float = 0.0
    k_eps: float = 0.0


@dataclass(frozen=True)
class LoweredAttention(FusedAttention):
    """Attention, or with [Dv + 2, H, T, chunks] elements the shares of chunks of cells. `packed`, a
    RESULT, is the result in panels, too; with `shares`, a RESULT, chunks are merged at once.

    With a table q of the one token is turned first, and its k, turned, and its v are stored, as by
    a `RopeStore`.
    """

    packed: Tensor | None = None
    shares: Tensor | None = None
    new_k: Tensor | None = None
    new_v: Tensor | None = None
    table: Tensor | None = None
    ids: Tensor | None = None
    q_weight: Tensor | None = None
    k_weight: Tensor | None = None
    k_cache: Tensor | None = None
    v_cache: Tensor | None = None
    _: KW_ONLY
    panels: Panels | None = None
    neox: bool = False
    q_eps: float = 0.0
    k_eps: float = 0.0


@dataclass(frozen=True)
class LoweredCausalConv(CausalConv):
    """A convolution; its new state goes into row `to` of the cache `kept`, a RESULT, if given."""

    to: Tensor | None = None
    kept: Tensor | None = None


@dataclass(frozen=True)
class LoweredDeltaNet(DeltaNet):
    """The delta rule, `to` and `kept` as above. With `dt` and `a`, f32 [Hv] each, heads decay by
    softplus(g + dt) a and step by the sigmoid of beta.
    """

    to: Tensor | None = None
    kept: Tensor | None = None
    dt: Tensor | None = None
    a: Tensor | None = None


@dataclass(frozen=True)
class LoweredSsmScan(SsmScan):
    """A selective scan, `to` and `kept` as above. With `dt` f32 [H] steps of time are
    softplus(delta + dt), at least `least`.
    """

    to: Tensor | None = None
    kept: Tensor | None = None
    dt: Tensor | None = None
    _: KW_ONLY
    least: float = 0.0


@dataclass(frozen=True)
class LoweredTokenShift(TokenShift):
    """Mixes of neighbouring tokens, `to` and `kept` as above."""

    to: Tensor | None = None
    kept: Tensor | None = None


@dataclass(frozen=True)
class LoweredWkv(Wkv):
    """Weighted keys and values, `to` and `kept` as above."""

    to: Tensor | None = None
    kept: Tensor | None = None


@dataclass(frozen=True)
class AttentionMerge(Arguments):
    """The sum of the shares of chunks, `packed` as above."""

    shares: Tensor
    sinks: Tensor | None
    packed: Tensor | None = None
    _: KW_ONLY
    panels: Panels | None = None


@dataclass(frozen=True)
class LoweredArgsort(Argsort):
    """The order of each row, or of every `block` elements of it."""

    _: KW_ONLY
    block: int = 0


@dataclass(frozen=True)
class BestMerge(Arguments):
    """The k largest of each row, of which `parts` hold the k largest of every block: f32
    [2 * k * blocks, rows], as `best` has them, one block behind the other.
    """

    parts: Tensor
    _: KW_ONLY
    k: int


@dataclass(frozen=True)
class ArgsortMerge(Arguments):
    """The order of rows of x whose `blocks` of `block` elements are in order."""

    x: Tensor
    blocks: Tensor
    _: KW_ONLY
    descending: bool
    block: int
