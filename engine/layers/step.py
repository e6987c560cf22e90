"""One step's numbers, and one forward pass under construction whose inputs they fill."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.gguf.formats import F32, I32, Format
from engine.graph import ops
from engine.graph.tensor import Role, Tensor, leaf
from engine.kvcache.causal import POSITION, CacheStep
from engine.kvcache.encoded import EncodedStep
from engine.kvcache.states import StateStep, read_from, written_to
from engine.layers import hadamard
from engine.layers.edits import EditShape, StepEdits
from engine.layers.relative import buckets
from engine.layers.rope import RopeParams, step_table
from engine.layers.spec import Temperature


def written(cache: Tensor, new: Tensor, ids: Tensor) -> Tensor:
    """The cache when new [D, K, T] are written into the cells `ids` [T]."""
    # Tokens may lie apart, as parts of a joint projection do; a row's heads may not.
    if new.shape[1] > 1 and new.strides[1] != new.shape[0] * new.strides[0]:
        new = ops.duplicate(new)
    packed = new.window(0, (cache.shape[0], new.shape[2]), (new.strides[0], *new.strides[2:], 0))
    return ops.set_rows(cache, packed, ids).named(f"{cache.name} (view)")


def first_cells(cache: Tensor, heads: int, n_cells: int) -> Tensor:
    """The first cells of a cache as [D, K, C]."""
    dim = cache.shape[0] // heads
    row = cache.strides[1]
    return cache.view(0, (dim, heads, n_cells), (cache.fmt.row_bytes(dim), row))


def unfused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    spans: Tensor,
    cells: Tensor,
    scale: float,
    softcap: float,
    sinks: Tensor | None,
    alibi: float,
    bias: Tensor | None = None,
) -> Tensor:
    """Attention from single operations: q [D, H, T], k, v [D, K, C] -> [Dv, H, T]; a `bias` [C, T,
    H] is added to products of keys and queries before they are scaled.
    """
    scores = ops.matmul(k.permute(0, 2, 1, 3), q.permute(0, 2, 1, 3)).named("kq")
    if bias is not None:
        scores = ops.add(scores, bias).named("kq_biased")
    weights = ops.softmax(
        scores, spans, cells, scale=scale, softcap=softcap, sinks=sinks, alibi=alibi
    ).named("kq_soft_max")
    mixed = ops.matmul(ops.duplicate(v.permute(1, 2, 0, 3)), weights).named("kqv")
    return ops.contiguous(mixed.permute(0, 2, 1, 3))


def around(count: int, n: int, reach: int | None) -> NDArray[np.int32]:
    """Spans [n, 4] of `count` tokens that see up to `reach` places to both sides."""
    spans = np.zeros((n, 4), np.int32)
    at = np.arange(count)
    spans[:count, 0] = 1
    spans[:count, 1] = 0 if reach is None else np.maximum(at - reach, 0)
    spans[:count, 2] = count - 1 if reach is None else np.minimum(at + reach, count - 1)
    spans[:count, 3] = at
    return spans


Array = NDArray[np.generic]


class Step(NamedTuple):
    """Inputs of one step, padded to its plan's bucket: tokens and positions 0, ids and
    outputs -1, spans without a bit.

    Where a row of a picture stands, the token is -1 and `rows` has the row, followed by those that
    are added after the first layers; elsewhere it is zeros. `places` are what keys and queries turn
    by where these are not the positions.
    """

    tokens: NDArray[np.int32]  # [T]
    positions: NDArray[np.int32]  # [T]
    outputs: NDArray[np.int32]  # [n_outputs]: which tokens' logits are wanted
    caches: tuple[CacheStep, ...]
    rows: NDArray[np.float32] | None = None  # [T, E * planes]
    places: NDArray[np.int32] | None = None  # [4, T]: time, height, width and a fourth
    encoded: EncodedStep | None = None
    states: Sequence[StateStep] = ()  # of each sequence, in the tokens' order
    n_real: int = 0  # of the tokens
    edits: StepEdits | None = None
    scales: NDArray[np.float64] | None = None  # [adapters, T]: of each adapter


Fill = Callable[[Step], Array]


@dataclass(frozen=True)
class LayerCache:
    """A layer's keys [D*K, C] and values [Dv*K, C], which of the caches says who sees them, and
    what keys were turned by. Values may be a view of the last channels of the keys.

    Where they are `borrowed`, an earlier layer writes them and this one only reads. `cross` are
    those of an encoder's rows, which the layer attends to as well.
    """

    k: Tensor
    v: Tensor
    heads: int
    cache: int
    rope: RopeParams | None
    borrowed: bool = False
    cross: "LayerCache | None" = None

    @property
    def joint(self) -> bool:
        """True if values are a part of the keys."""
        return self.v.storage is self.k

    @property
    def blocks(self) -> tuple[int, int]:
        """Channels of keys and of values that are rotated together, where `hadamard.helps`."""
        k, v = (cells.shape[0] // self.heads for cells in (self.k, self.v))
        if self.joint:
            return (hadamard.block_size(gcd(k - v, v)),) * 2
        return hadamard.block_size(k), hadamard.block_size(v)

    @property
    def leaves(self) -> tuple[Tensor, ...]:
        """Tensors that are allocated for it."""
        if self.borrowed:
            return ()
        further = () if self.cross is None else self.cross.leaves
        return (self.k, *further) if self.joint else (self.k, self.v, *further)


@dataclass(frozen=True)
class LayerState:
    """A recurrent layer's state after all tokens so far, f32, a row per slot: its convolution's
    last inputs [(kernel - 1) * channels, slots], channels fastest, the oldest first, and the
    recurrence's state [size, slots]; None for what the layer does not have. `fed` is what entered
    its feed-forward of the last token [E, slots], where that reads it (RWKV).
    """

    conv: Tensor | None
    state: Tensor | None
    fed: Tensor | None = None

    @property
    def leaves(self) -> tuple[Tensor, ...]:
        """Tensors that are allocated for it."""
        return tuple(leaf for leaf in (self.conv, self.state, self.fed) if leaf is not None)


SiteName = Literal["residual", "attention", "feed_forward", "heads"]
"""Results that every architecture has: what leaves a layer, what each of its parts adds, and what
its heads give to the output matrix [D * H, T].
"""


class Site(NamedTuple):
    """A layer's result under a name that every architecture has; `entered` is what entered the
    layer, of all tokens.
    """

    name: SiteName
    layer: int
    node: Tensor
    entered: Tensor | None


class Pass:
    """One forward pass: its size, and the inputs it has requested so far.

    `cells[i]` is how many cells of cache i attention may look at (the plan's KV bucket). `planes`
    counts the rows that a picture brings for each place: none where all are tokens, one, and one
    more for each of the first layers that adds its own (`deepstack`). `encoded` is how many rows
    enter the cache of cross attention and how many of its cells may be looked at, None where no
    picture is seen. `parts` are the sequences, at most, that tokens are of: recurrent layers read
    and write a state of each. `sites` are the results that edits know by one name in all models.
    Where it is `whole`, the last layer keeps the rows of all tokens.
    """

    def __init__(
        self,
        n_tokens: int,
        n_outputs: int,
        cells: Sequence[int],
        fused_attention: bool = True,
        planes: int = 0,
        encoded: tuple[int, int] | None = None,
        states: Sequence[LayerState | None] = (),
        parts: int = 1,
        whole: bool = False,
    ) -> None:
        self.n_tokens = n_tokens
        self.n_outputs = n_outputs
        self.cells = tuple(cells)
        self.fused_attention = fused_attention
        self.planes = planes
        self.encoded = encoded
        self.parts = parts
        self.whole = whole
        self.effects: list[Tensor] = []
        self.sites: list[Site] = []
        self.first_values: Tensor | None = None
        """Values of the first layer, where later ones mix theirs with them (RWKV-7)."""
        self.first_bias: Tensor | None = None
        """The bias of the first layer's scores, which later ones without their own share (T5)."""
        self._written: dict[Tensor, Tensor] = {}
        self._states = tuple(states)
        self._width = 0
        self._inputs: dict[Hashable, tuple[Tensor, Fill]] = {}

    def fill(self, step: Step) -> dict[Tensor, Array]:
        """The value of every input for a step, in reversed shapes."""
        return {tensor: make(step) for tensor, make in self._inputs.values()}

    @property
    def tokens(self) -> Tensor:
        """i32 [T]."""
        return self._input("inp_tokens", I32, (self.n_tokens,), lambda s: s.tokens)

    def tokens_or(self, token: int) -> Tensor:
        """i32 [T], that token where a picture's row stands."""
        return self._input(
            f"inp_tokens_or_{token}",
            I32,
            (self.n_tokens,),
            lambda s: np.where(s.tokens < 0, np.int32(token), s.tokens),
        )

    def with_pictures(self, x: Tensor) -> Tensor:
        """Embeddings of tokens x [E, T], as they enter the first layer, and the rows of pictures
        where the token is -1 and x therefore zero.
        """
        if not self.planes:
            return x
        self._width = x.shape[0]
        return ops.add(x, self._plane(0)).named("inp_embd")

    def hidden(self, width: int) -> Tensor:
        """f32 [E, T]: hidden states of another pass, which come as pictures' rows do."""
        self._width = width
        return self._plane(0)

    def deepstack(self, k: int) -> Tensor | None:
        """f32 [E, T]: what pictures add after layer k, zero at tokens; None where nothing is."""
        return self._plane(k + 1) if k + 1 < self.planes else None

    def _plane(self, i: int) -> Tensor:
        start, end = i * self._width, (i + 1) * self._width

        def fill(s: Step) -> Array:
            assert s.rows is not None
            return s.rows[:, start:end]

        return self._input(f"inp_rows_{i}", F32, (self._width, self.n_tokens), fill)

    @property
    def positions(self) -> Tensor:
        """i32 [T], of a table of positions that were learned."""
        return self._input("inp_positions", I32, (self.n_tokens,), lambda s: s.positions)

    @property
    def out_ids(self) -> Tensor:
        """i32 [n_outputs]."""
        return self._input("inp_out_ids", I32, (self.n_outputs,), lambda s: s.outputs)

    def prune(self, x: Tensor) -> Tensor:
        """x [E, T] in the last layer: `wanted`, unless all tokens' rows are kept."""
        return x if self.whole else self.wanted(x)

    def wanted(self, x: Tensor) -> Tensor:
        """Only the rows whose logits are wanted: x [E, T] -> [E, n_outputs]."""
        return x if self.n_outputs == self.n_tokens else ops.rows(x, self.out_ids)

    def rope(self, x: Tensor, params: RopeParams) -> Tensor:
        """Rotate x [D, H, T] by the step's positions, or its places where there are sections;
        layers with equal params share a table.
        """
        table = self._input(
            params,
            F32,
            (params.n_rot, self.n_tokens),
            lambda s: step_table(params, s.positions, s.places),
            name=f"inp_rope_{params.base:g}",
        )
        return ops.rope(x, table, params.neox)

    def tempered(self, q: Tensor, temperature: Temperature) -> Tensor:
        """Queries [D, H, T] times what the step's positions make of the temperature."""
        factors = self._input(
            temperature,
            F32,
            (1, 1, self.n_tokens),
            lambda s: temperature.factors(s.positions),
            name="inp_attn_scale",
        )
        return ops.mul(q, factors)

    def site(self, x: Tensor, layer: int, name: SiteName, entered: Tensor | None = None) -> Tensor:
        """x, a layer's result that can be edited under this name."""
        self.sites.append(Site(name, layer, x, entered))
        return x

    def edited(
        self,
        x: Tensor,
        k: int,
        shape: EditShape,
        of_outputs: bool,
        slots: int = 1,
        entered: Tensor | None = None,
        experts: Tensor | None = None,
    ) -> Tensor:
        """x with the instructions of point k; it has `slots` rows for each token, or for each of
        the outputs. `entered` is like x, `experts` has the expert of each row.
        """
        n = self.n_outputs if of_outputs else self.n_tokens

        def each(part: str) -> Tensor:
            def fill(s: Step) -> Array:
                counts: NDArray[np.int32] = getattr(_edits(s), f"{part}s")[k]
                if of_outputs and self.n_outputs != self.n_tokens:
                    counts = np.where(s.outputs < 0, 0, counts[s.outputs])
                return np.repeat(counts, slots)

            key = f"inp_edit_{part}_{k}{'_of_outputs' * of_outputs}{f'_by_{slots}' * (slots > 1)}"
            return self._input(key, I32, (n * slots,), fill)

        width, m = x.nelements // (n * slots), shape.instructions
        n_vectors = dict(shape.vectors).get(width)
        code = self._input("inp_edit_code", I32, (8, m), lambda s: _edits(s).code)
        number = self._input("inp_edit_number", F32, (8, m), lambda s: _edits(s).number)
        table = None
        if n_vectors is not None:
            name = f"inp_edit_vectors_{width}"
            table = self._input(name, F32, (width, n_vectors), lambda s: _edits(s).vectors[width])
        rows = (each("first"), each("count"), code, number, table)
        return ops.edit(x, *rows, entered, experts)

    def adapter_scales(self, adapter: int, factor: float, n: int) -> Tensor:
        """f32 [1, n]: an adapter's scale times `factor` for each token, or each of the outputs."""
        of_outputs = n != self.n_tokens

        def fill(s: Step) -> Array:
            assert s.scales is not None
            values: NDArray[np.float64] = s.scales[adapter] * factor
            if of_outputs:
                values = np.where(s.outputs < 0, 0, values[s.outputs])
            return values[:, None].astype(np.float32)

        key = ("adapter", adapter, factor, of_outputs)
        return self._input(key, F32, (1, n), fill, f"inp_lora_scale_{adapter}")

    def attend(
        self,
        q: Tensor,
        k: Tensor | None,
        v: Tensor | None,
        cache: LayerCache,
        scale: float,
        softcap: float = 0.0,
        sinks: Tensor | None = None,
        alibi: float = 0.0,
        bias: Tensor | None = None,
    ) -> Tensor:
        """Write k and v [D, K, T] into the cache, then attend: q [D, H, T] -> [Dv * H, T], as
        `ops.attention`, or with a bias as `unfused`. No v where values are a part of the keys, and
        neither where cells are borrowed.

        Where `hadamard.helps`, keys and values are rotated, and q and the result with them.
        """
        n = self.n_tokens
        ids = self._input(f"inp_ids_{cache.cache}", I32, (n,), self._step(cache, "ids"))
        spans = self._input(f"inp_spans_{cache.cache}", I32, (4, n), self._step(cache, "spans"))
        n_cells = self.cells[cache.cache]
        cells = self._input(
            f"inp_cells_{cache.cache}",
            I32,
            (2, n_cells),
            lambda s: s.caches[cache.cache].cells[:n_cells],
        )
        n_kv = self._input(
            f"inp_n_kv_{cache.cache}",
            I32,
            (1,),
            lambda s: np.array([s.caches[cache.cache].n_kv], np.int32),
        )
        turns_k, turns_v = cache.blocks if hadamard.helps(cache.k.fmt) else (0, 0)
        for held, new, size in ((cache.k, k, turns_k), (cache.v, v, turns_v)):
            if new is not None:
                self._written[held] = written(held, self._rotated(new, size), ids)
        q = self._rotated(q, turns_k)
        keys = first_cells(self._written[cache.k], cache.heads, n_cells)
        if cache.joint:
            shape = (cache.v.shape[0], 1, n_cells)
            values = keys.window(cache.v.offset, shape, keys.strides)
        else:
            values = first_cells(self._written[cache.v], cache.heads, n_cells)
        if self.fused_attention and bias is None:
            numbers = {"scale": scale, "softcap": softcap, "alibi": alibi}
            mixed = ops.attention(q, keys, values, spans, cells, n_kv, sinks=sinks, **numbers)
        else:
            mixed = unfused(q, keys, values, spans, cells, scale, softcap, sinks, alibi, bias)
        mixed = self._rotated(mixed, turns_v)
        return mixed.reshape(mixed.shape[0] * mixed.shape[1], n)

    def attend_all(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        scale: float,
        reach: int | None,
        alibi: float = 0.0,
        bias: Tensor | None = None,
    ) -> Tensor:
        """Attention among the step's own tokens, before and behind: q [D, H, T], k and v [D, K, T]
        -> [Dv * H, T]. A token sees those at most `reach` places away, None: all. A `bias` is added
        as `unfused` adds it.
        """
        n = self.n_tokens

        def spans(s: Step) -> Array:
            return around(s.n_real, n, reach)

        def cells(s: Step) -> Array:
            return np.stack([np.ones(n, np.int32), np.arange(n, dtype=np.int32)], 1)

        seen = self._input(f"inp_reach_{reach}", I32, (4, n), spans)
        held = self._input("inp_cells_all", I32, (2, n), cells)
        n_kv = self._input("inp_n_kv_all", I32, (1,), lambda s: np.array([s.n_real], np.int32))
        if bias is None:
            mixed = ops.attention(q, k, v, seen, held, n_kv, scale=scale, alibi=alibi)
        else:
            mixed = unfused(q, k, v, seen, held, scale, 0.0, None, alibi, bias)
        return mixed.reshape(mixed.shape[0] * mixed.shape[1], n)

    def relative_bias(self, table: Tensor, cache: LayerCache | None) -> Tensor:
        """The bias f32 [C, T, H] of scores over a cache's cells, or over the step's own tokens on
        both sides: for each pair the row of `table` [H, B] that its distance's bucket has.
        """
        n, (heads, n_buckets) = self.n_tokens, table.shape[:2]
        n_cells = n if cache is None else self.cells[cache.cache]

        def fill(s: Step) -> Array:
            at = np.arange(n, dtype=np.int32) if cache is None else s.positions
            seen = at if cache is None else s.caches[cache.cache].cells[:n_cells, POSITION]
            return buckets(seen[None, :] - at[:, None], n_buckets, cache is None).reshape(-1)

        ids = self._input(f"inp_buckets_{n_buckets}", I32, (n_cells * n,), fill)
        rows = ops.rows(table, ids).reshape(heads, n_cells, n)
        return ops.contiguous(rows.permute(2, 0, 1, 3)).named("pos_bias")

    def cross(
        self,
        q: Tensor,
        encode: Callable[[Tensor], tuple[Tensor, Tensor]],
        cache: LayerCache,
        scale: float,
        width: int,
    ) -> Tensor:
        """Write what `encode` makes of the rows [E, R] that enter, E being `width`: keys and values
        [D, K, R]; then attend: q [D, H, T] -> [Dv * H, T], zeros where a token sees no picture.
        """
        assert self.encoded is not None
        entering, n_cells = self.encoded
        n = self.n_tokens
        spans = self._encoded("spans", I32, (4, n))
        cells = self._encoded("cells", I32, (2, n_cells))
        n_kv = self._input(
            "inp_cross_n_kv", I32, (1,), lambda s: np.array([_seen(s).n_kv], np.int32)
        )
        keys, values = (
            first_cells(cache.k, cache.heads, n_cells),
            first_cells(cache.v, cache.heads, n_cells),
        )
        if entering:
            rows = self._encoded("rows", F32, (width, entering))
            ids = self._encoded("ids", I32, (entering,))
            k, v = encode(rows)
            keys = first_cells(written(cache.k, k, ids), cache.heads, n_cells)
            values = first_cells(written(cache.v, v, ids), cache.heads, n_cells)
        mixed = ops.attention(q, keys, values, spans, cells, n_kv, scale=scale)
        return mixed.reshape(mixed.shape[0] * mixed.shape[1], n)

    @property
    def sees(self) -> Tensor:
        """f32 [1, T]: 1 at tokens that see a picture, else 0."""

        def fill(s: Step) -> Array:
            mask: NDArray[np.float32] = (_seen(s).spans[:, :1] != 0).astype(np.float32)
            return mask

        return self._input("inp_cross_sees", F32, (1, self.n_tokens), fill)

    def state(self, layer: int) -> LayerState:
        """The state of a recurrent layer."""
        state = self._states[layer]
        assert state is not None, f"layer {layer} keeps no state"
        return state

    @property
    def state_at(self) -> Tensor:
        """i32 [2, P]: of each sequence the slot whose state its first token finds, -1 for one of
        zeros, and where its tokens end. Those behind all ends change no state.
        """

        return self._input(
            "inp_state_at", I32, (2, self.parts), lambda s: read_from(s.states, self.parts)
        )

    def carry(self, packed: Tensor, leaf: Tensor) -> Tensor:
        """Split a recurrent operation's result f32 [W, M T + P n]: its first M T columns. The
        others are the states behind the tokens of each sequence; a row of `leaf` [W * n, slots]
        takes n of them.
        """
        width, size = packed.shape[0], leaf.shape[0]
        columns = packed.shape[1] - self.parts * size // width
        behind = packed.view(columns * packed.strides[1], (size, self.parts))

        to = self._input(
            "inp_state_to", I32, (self.parts,), lambda s: written_to(s.states, self.parts)
        )
        self.effects.append(ops.set_rows(leaf, behind, to).named(f"{leaf.name} (view)"))
        return packed.view(0, (width, columns))

    def shifted(self, x: Tensor, mix: Tensor, leaf: Tensor, keeps: bool = True) -> list[Tensor]:
        """x [E, T] mixed with the token before by each row of `mix` [E, M elements], or of [E, T,
        M] by each token's own: M times [E, T]. `leaf` [E, slots] keeps the last token, once.
        """
        width, n = x.shape[:2]
        mixes = mix if mix.shape[1] == n > 1 else mix.reshape(width, 1, mix.nelements // width)
        whole = ops.token_shift(x, mixes, leaf, self.state_at)
        whole = self.carry(whole, leaf) if keeps else whole
        size = n * whole.strides[1]
        return [whole.view(i * size, (width, n)) for i in range(mixes.shape[2])]

    def _encoded(self, part: str, fmt: Format, shape: Sequence[int]) -> Tensor:
        return self._input(f"inp_cross_{part}", fmt, shape, lambda s: getattr(_seen(s), part))

    def _rotated(self, x: Tensor, size: int) -> Tensor:
        """x [D, H, T] as a cache keeps it, in blocks of a size, 0 for as it is; or back again."""
        if not size:
            return x
        name = f"inp_hadamard_{size}"
        h = self._input(name, F32, (size, size), lambda _: hadamard.matrix(size))
        return hadamard.rotate(x, h)

    def _step(self, cache: LayerCache, field: str) -> Fill:
        return lambda s: getattr(s.caches[cache.cache], field)

    def _input(
        self, key: Hashable, fmt: Format, shape: Sequence[int], fill: Fill, name: str | None = None
    ) -> Tensor:
        if key not in self._inputs:
            tensor = leaf(name or str(key), fmt, shape, Role.INPUT)
            self._inputs[key] = (tensor, fill)
        return self._inputs[key][0]


def _edits(step: Step) -> StepEdits:
    assert step.edits is not None
    return step.edits


def _seen(step: Step) -> EncodedStep:
    assert step.encoded is not None
    return step.encoded
