"""Operations that carry a state from token to token.

A state is one row, a slot, of a cache leaf f32 [size, slots]. The T tokens are of P sequences, one
part of each after the other: `at` i32 [2, P] says of each which slot is read, -1 for zeros, and
where its part ends, which is where the next begins. What is behind the last end is padding: nothing
is read of it, and its results are zeros. A result is packed: columns of T tokens, then those of the
P new states, which a `set_rows` puts into other slots. Its -1 stand for parts without tokens alone.
"""

from dataclasses import KW_ONLY, dataclass

from engine.errors import ShapeError
from engine.gguf.formats import F32, I32
from engine.graph.node import Arguments, node
from engine.graph.op import Op
from engine.graph.tensor import Tensor


@dataclass(frozen=True)
class CausalConv(Arguments):
    """Each channel's last inputs, weighted."""

    x: Tensor
    w: Tensor
    bias: Tensor | None
    state: Tensor
    at: Tensor
    _: KW_ONLY
    silu: bool


@dataclass(frozen=True)
class DeltaNet(Arguments):
    """The gated delta rule."""

    q: Tensor
    k: Tensor
    v: Tensor
    g: Tensor
    beta: Tensor
    state: Tensor
    at: Tensor
    _: KW_ONLY
    eps: float
    tiled: bool


@dataclass(frozen=True)
class SsmScan(Arguments):
    """The selective scan of a state space model."""

    x: Tensor
    delta: Tensor
    b: Tensor
    c: Tensor
    a: Tensor
    d: Tensor | None
    state: Tensor
    at: Tensor


@dataclass(frozen=True)
class TokenShift(Arguments):
    """Mixes of each token and the one before it."""

    x: Tensor
    mix: Tensor
    state: Tensor
    at: Tensor


@dataclass(frozen=True)
class Wkv(Arguments):
    """The weighted keys and values of RWKV 6 and 7."""

    q: Tensor
    k: Tensor
    v: Tensor
    g: Tensor
    erased: Tensor | None
    rate: Tensor | None
    bonus: Tensor | None
    state: Tensor
    at: Tensor
    _: KW_ONLY
    eps: float


Recurrent = CausalConv | DeltaNet | SsmScan | TokenShift | Wkv


def causal_conv(
    x: Tensor, w: Tensor, bias: Tensor | None, state: Tensor, at: Tensor, *, silu: bool
) -> Tensor:
    """y[c, t] = bias[c] + sum over j of w[j, c] in[c, t + j], through silu where wanted; `in` are
    the Kc - 1 columns of the state, then x. The new state are the last Kc - 1 real ones of `in`.

    x [C, T], w [Kc, C], bias [C], state [(Kc-1)*C, slots] -> f32 [C, T + P (Kc-1)].
    """
    kernel, channels = w.shape[:2]
    n = x.shape[1]
    if x.dims[2:] or w.dims[2:] or x.shape[0] != channels or kernel < 2:
        raise ShapeError("causal_conv", "needs x [C, T] and w [Kc, C]", x.shape, w.shape)
    if bias is not None and bias.dims != (channels,):
        raise ShapeError("causal_conv", "the bias is one a channel", bias.shape, w.shape)
    _check("causal_conv", (kernel - 1) * channels, state, at, x, w, bias)
    arguments = CausalConv(x, w, bias, state, at, silu=silu)
    return node(Op.CAUSAL_CONV, F32, (channels, n + parts_in(at) * (kernel - 1)), arguments)


def delta_net(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    state: Tensor,
    at: Tensor,
    *,
    eps: float,
    tiled: bool,
) -> Tensor:
    """Per head, S [Dv, Dk] (Yang, Kautz & Hatamizadeh 2025, "Gated Delta Networks"):

        S = e^g S;   S += (beta (v - S k)) k^T;   o = S q / sqrt(Dk)

    with q and k over sqrt(sum of squares + eps). q, k [Dk, Hk, T], v [Dv, Hv, T], g, beta [Hv, T],
    state [Dv*Dk*Hv, slots] -> f32 [Dv*Hv, T + P Dk]. Head j of v has head j mod Hk of q and k if
    `tiled`, else j // (Hv/Hk). g [Dk, Hv, T]: each channel of keys decays by its own (Kimi Team
    2025).
    """
    dim, heads, n = v.shape[:3]
    key = q.shape[0]
    if q.shape != k.shape or q.shape[2:] != v.shape[2:] or v.shape[3] != 1 or heads % q.shape[1]:
        raise ShapeError("delta_net", "q, k and v do not fit", q.shape, k.shape, v.shape)
    wanted = ((heads, n, 1, 1), (key, heads, n, 1))
    if beta.shape != wanted[0] or g.shape not in wanted:
        raise ShapeError("delta_net", f"g and beta are [{heads}, {n}]", g.shape, beta.shape)
    _check("delta_net", dim * key * heads, state, at, q, k, v, g, beta)
    arguments = DeltaNet(q, k, v, g, beta, state, at, eps=float(eps), tiled=tiled)
    return node(Op.DELTA_NET, F32, (dim * heads, n + parts_in(at) * key), arguments)


def ssm_scan(
    x: Tensor,
    delta: Tensor,
    b: Tensor,
    c: Tensor,
    a: Tensor,
    d: Tensor | None,
    state: Tensor,
    at: Tensor,
) -> Tensor:
    """Per head, M [D, N] (Gu & Dao 2023, Dao & Gu 2024):

        M = e^(delta a) M + delta x b^T;   y = M c + d x

    x [D, H, T], delta [H, T], b, c [N, G, T] for H/G heads each, a [1, H], or [N, H] with one for
    each column of M, d [H], state [D*N*H, slots] -> f32 [D*H, T + P N].
    """
    dim, heads, n = x.shape[:3]
    size = b.shape[0]
    if b.shape != c.shape or b.shape[2:] != x.shape[2:] or x.shape[3] != 1 or heads % b.shape[1]:
        raise ShapeError("ssm_scan", "x, b and c do not fit", x.shape, b.shape, c.shape)
    if delta.shape != (heads, n, 1, 1) or a.shape not in ((1, heads, 1, 1), (size, heads, 1, 1)):
        what = f"delta is [{heads}, {n}], a [1, {heads}] or [{size}, {heads}]"
        raise ShapeError("ssm_scan", what, delta.shape, a.shape)
    if d is not None and d.dims != (heads,):
        raise ShapeError("ssm_scan", "d is one a head", d.shape, x.shape)
    _check("ssm_scan", dim * size * heads, state, at, x, delta, b, c, a, d)
    arguments = SsmScan(x, delta, b, c, a, d, state, at)
    return node(Op.SSM_SCAN, F32, (dim * heads, n + parts_in(at) * size), arguments)


def token_shift(x: Tensor, mix: Tensor, state: Tensor, at: Tensor) -> Tensor:
    """y[:, t] = x[:, t] + (x[:, t - 1] - x[:, t]) mix of each of M mixes (Peng et al. 2023, RWKV);
    before the first token stands the state. The new one is the last token's x.

    x [C, T], mix [C, 1, M], or [C, T, M] where each token has its own, state [C, slots] -> f32
    [C, M T + P]: all tokens by the first mix, then by the next.
    """
    channels, n = x.shape[:2]
    if x.dims[2:] or mix.shape[0] != channels or mix.shape[1] not in (1, n) or mix.shape[3] != 1:
        raise ShapeError("token_shift", "needs x [C, T] and mix [C, 1 or T, M]", x.shape, mix.shape)
    _check("token_shift", channels, state, at, x, mix)
    columns = mix.shape[2] * n + parts_in(at)
    return node(Op.TOKEN_SHIFT, F32, (channels, columns), TokenShift(x, mix, state, at))


def wkv(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    state: Tensor,
    at: Tensor,
    *,
    erased: tuple[Tensor, Tensor] | None = None,
    bonus: Tensor | None = None,
    eps: float = 0.0,
) -> Tensor:
    """Per head, S [Dv, Dk], n being `erased[0]` over sqrt(sum of squares + eps), a `erased[1]`:

        S = S diag(e^g) - (S n) (a n)^T + v k^T;   o = S q

    where S n sees S before its decay (Peng et al. 2025, RWKV-7). Without `erased` nothing is taken
    off; with a bonus b, o = (S + v (b k)^T) q of S before all of it (Peng et al. 2024, RWKV-6).
    q, k, g, n, a [Dk, H, T], v [Dv, H, T], b [Dk, H], state [Dv*Dk*H, slots] -> f32
    [Dv*H, T + P Dk].
    """
    dim, heads, n = v.shape[:3]
    key = q.shape[0]
    alike = [q, k, g, *(erased or ())]
    if v.shape[3] != 1 or any(t.shape != (key, heads, n, 1) for t in alike):
        shapes = [t.shape for t in (*alike, v)]
        raise ShapeError("wkv", "q, k, g, v and what is erased do not fit", *shapes)
    if bonus is not None and (bonus.dims != (key, heads) or erased is not None):
        raise ShapeError("wkv", f"a bonus is [{key}, {heads}] where nothing is erased", bonus.shape)
    gone, rate = erased or (None, None)
    _check("wkv", dim * key * heads, state, at, q, k, v, g, gone, rate, bonus)
    arguments = Wkv(q, k, v, g, gone, rate, bonus, state, at, eps=float(eps))
    return node(Op.WKV, F32, (dim * heads, n + parts_in(at) * key), arguments)


def parts_in(at: Tensor) -> int:
    """Number of sequences that a step's tokens belong to."""
    return at.nelements // 2


def _check(op: str, size: int, state: Tensor, at: Tensor, *numbers: Tensor | None) -> None:
    """Raises `ShapeError` unless a slot holds `size` elements and all numbers are f32."""
    if state.fmt != F32 or state.shape[0] != size or state.dims[2:]:
        raise ShapeError(op, f"the state must be F32 rows of {size}", state.shape)
    if at.fmt != I32 or at.shape[0] != 2 or at.dims[2:]:
        raise ShapeError(op, "`at` is i32 [2, P]: slots, and ends of parts", at.shape)
    present = [t for t in numbers if t is not None]
    if any(t.fmt != F32 for t in present):
        types = ", ".join(t.fmt.name for t in present)
        raise ShapeError(op, f"computes in F32, not {types}", *(t.shape for t in present))
