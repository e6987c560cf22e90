"""Llama 3.2 Vision, text: Llama with layers that look at the latest picture instead of at tokens.

Meta 2024; names by Ollama's files. A layer of cross attention adds tanh(g) times what it finds, and
nothing where no picture stands before a token: without pictures it is left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from engine.errors import ShapeError
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import Linear, RMSNorm
from engine.layers.spec import BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.models.constants import Constant, Values, rope_factors
from engine.models.decoder import Decoder, DecoderParams, PlainWeights
from engine.models.kept import Cells, Encoded, Kept
from engine.weights.bind import Name
from engine.weights.params import COUNT, Meta, Range

SIDE = Range(1, 1 << 14)
MOST_ROWS = 1 << 17
"""Of a picture: what they need of memory on the host is taken before anything is placed."""


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    """Hyperparameters by their GGUF keys; `cross` are the layers that look at pictures, the last
    three say how many rows one picture has.
    """

    cross: Annotated[
        tuple[int, ...], Meta("attention.cross_attention_layers", Range(0, COUNT.high))
    ]
    image_size: Annotated[int, Meta("vision.image_size", SIDE)] = 560
    patch: Annotated[int, Meta("vision.patch_size", SIDE)] = 14
    tiles: Annotated[int, Meta("vision.max_num_tiles", Range(1, 16))] = 4

    @property
    def picture_rows(self) -> int:
        """Rows of the largest picture: a class row and the patches of each tile."""
        return self.tiles * (1 + (self.image_size // self.patch) ** 2)

    def problem(self) -> str:
        """A contradiction among the parameters, or ""."""
        if problem := super().problem():
            return problem
        if beyond := [i for i in self.cross if i >= self.n_layer]:
            key = f"attention.cross_attention_layers has {beyond[0]}"
            return f"{key}, block_count is {self.n_layer}"
        if self.picture_rows > MOST_ROWS:
            keys = "vision.image_size, patch_size and max_num_tiles"
            return f"{keys} make {self.picture_rows} rows a picture; expected up to {MOST_ROWS}"
        return ""

    def constants(self) -> Sequence[Constant]:
        return [rope_factors(self.rope_dim)]


@dataclass(frozen=True)
class CrossBlock:
    """x += tanh(g) A(norm x, picture); x += tanh(g) F(norm x), where a picture is seen."""

    attn_norm: Annotated[RMSNorm, Name("attn_norm")]
    q: Annotated[Linear, Name("cross_attn_q_proj")]
    k: Annotated[Linear, Name("cross_attn_k_proj")]
    v: Annotated[Linear, Name("cross_attn_v_proj")]
    o: Annotated[Linear, Name("cross_attn_o_proj")]
    q_norm: Annotated[RMSNorm, Name("cross_attn_q_norm")]
    k_norm: Annotated[RMSNorm, Name("cross_attn_k_norm")]
    attn_gate: Annotated[Tensor, Name("cross_attn_attn_gate")]
    ffn_norm: Annotated[RMSNorm, Name("ffn_norm")]
    ffn: FeedForward
    ffn_gate: Annotated[Tensor, Name("cross_attn_mlp_gate")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i, as it was where no picture is seen; in the `last` one only
        the wanted [E, n_outputs].
        """
        if p.encoded is not None:
            assert cache is not None
            x = self.looked(x, i, p, spec, cache)
        return p.prune(x) if last else x

    def looked(self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache) -> Tensor:
        """x [E, T] -> [E, T]."""
        attention = spec.attention
        d, heads = attention.head_dim, attention.n_head_kv

        def encoded(rows: Tensor) -> tuple[Tensor, Tensor]:
            k = self.k(rows, "cross_k", i).reshape(d, heads, rows.shape[1])
            v = self.v(rows, "cross_v", i).reshape(d, heads, rows.shape[1])
            return self.k_norm(k, attention.eps, "cross_k_normed", i), v

        h = self.attn_norm(x, spec.eps, "attn_norm", i)
        q = self.q(h, "Qcur", i).reshape(d, attention.n_head, x.shape[1])
        q = self.q_norm(q, attention.eps, "Qcur_normed", i)
        mixed = p.cross(q, encoded, cache, attention.scale, x.shape[0]).named("kqv_out", i)
        mixed = p.site(mixed, i, "heads")
        h = ops.mul(self.o(mixed, "attn_out", i), ops.tanh(self.attn_gate))
        x = ops.add(p.site(h, i, "attention"), x).named("ffn_inp", i)
        h = self.ffn(self.ffn_norm(x, spec.eps, "ffn_norm", i), i, spec)
        h = ops.mul(ops.mul(h, ops.tanh(self.ffn_gate)), p.sees)
        return ops.add(p.site(h, i, "feed_forward"), x).named("l_out", i)


Weights = PlainWeights[PreNormBlock[SelfAttention, FeedForward] | CrossBlock]


class Model(Decoder[Params, Weights]):
    """Layers are of two kinds."""

    neox = False

    def __init__(
        self, params: Params, weights: Weights, constants: Mapping[str, Values], n_ctx: int
    ) -> None:
        super().__init__(params, weights, constants, n_ctx)
        made = [i for i, block in enumerate(weights.blocks) if isinstance(block, CrossBlock)]
        if made != sorted(params.cross):
            problem = f"are {sorted(params.cross)}, the tensors make {made}"
            raise ShapeError("attention.cross_attention_layers", problem)

    def kept(self) -> Sequence[Kept]:
        """Tokens in most layers, rows of pictures in the others."""
        a, params = self.attention(0), self.params
        tokens = Cells(a.head_dim, a.head_dim, a.n_head_kv, a.rope)
        pictures = Encoded(a.head_dim, a.head_dim, a.n_head_kv, params.picture_rows)
        return [pictures if i in params.cross else tokens for i in range(params.n_layer)]
