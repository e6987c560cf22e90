"""LoRA adapters: low-rank products that join those of a model's own matrices (Hu et al. 2021).

A file has pairs of tensors: `NAME.lora_a` [in, r] and `NAME.lora_b` [r, out] of the matrix NAME, or
of experts [in, r, X] and [r, out, X]; of a table of embeddings [E, V] they are [r, V] and [r, E].
Where the matrix gives W x, an adapter adds scale * alpha / r * B (A x); without an alpha, or where
that is 0, scale * B (A x). Graphs are built without adapters, and products are rewritten: so every
architecture has them, and a graph in which none is active is that of the model alone.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import NamedTuple

from engine.device.backend import Component, Owner
from engine.errors import BadFile, BadSetting, UnsupportedModel
from engine.gguf import GGUFFile, TensorInfo
from engine.gguf.adapters import ALORA, ALPHA, TYPE, is_adapter
from engine.gguf.formats import BF16, F16, F32, NVFP4
from engine.graph import ops
from engine.graph.graph import Current, Graph, Rewrite, is_numbered
from engine.graph.op import Op
from engine.graph.ops.matmul import Matmul
from engine.graph.tensor import Role, Tensor, leaf
from engine.layers.step import Pass
from engine.models.axes import Counts
from engine.models.vision import is_vision
from engine.settings import MOST_SCALE
from engine.weights.bind import ROWS

A, B = ".lora_a", ".lora_b"
MOST_RANK = 1 << 14
EXAMINED = Counts(509, 251, ())
"""Sizes of the step that shows where tokens are counted: primes, which no other axis has."""


def check_scale(name: str, scale: float) -> None:
    """Raise `BadSetting` for an adapter's scale that cannot be computed with."""
    if not abs(scale) <= MOST_SCALE:
        expected = f"a number from {-MOST_SCALE} to {MOST_SCALE}"
        raise BadSetting(f"lora {name}", scale, expected)


class Use(NamedTuple):
    """The product that reads a weight, and which axis of its other operand counts tokens."""

    op: Op
    axis: int


@dataclass(frozen=True)
class Pair:
    """Matrices that join a product: b (a x) times `factor`; tokens are counted by `axis` of x."""

    a: Tensor
    b: Tensor
    factor: float
    axis: int


@dataclass(frozen=True)
class Adapter:
    """A bound adapter: its pairs by the model's weight, and by its own leaves their names in its
    file and whose bytes they are.
    """

    pairs: Mapping[Tensor, Pair]
    sources: Mapping[Tensor, str]
    owners: Mapping[Tensor, Owner]


class Base(NamedTuple):
    """Describe a model for adapters: its architecture, its leaves with names and owners,
    and the products that read them; None for one that is read otherwise.
    """

    arch: str
    sources: Mapping[Tensor, str]
    owners: Mapping[Tensor, Owner]
    uses: Mapping[Tensor, Use | None]


def uses_of(graph: Graph) -> dict[Tensor, Use | None]:
    """Find the product that reads each weight in a graph of EXAMINED counts."""
    found: dict[Tensor, set[Use | None]] = defaultdict(set)
    for node in graph.nodes:
        for i, source in enumerate(node.src):
            if source is not None and source.role is Role.WEIGHT:
                found[source].add(_use(node) if i == 0 else None)
    return {weight: uses.pop() if len(uses) == 1 else None for weight, uses in found.items()}


def _use(node: Tensor) -> Use | None:
    if node.op not in (Op.MATMUL, Op.MATMUL_ID, Op.ROWS):
        return None
    other, first = node.src[1], int(node.op is not Op.ROWS)
    assert other is not None
    counted = (EXAMINED.tokens, EXAMINED.outputs)
    axes = [d for d in range(first, 4) if other.shape[d] in counted]
    return Use(node.op, axes[0]) if len(axes) == 1 else None


def bind_adapter(file: GGUFFile, base: Base, number: int) -> Adapter:
    """An adapter's pairs for a model, `number` being its place among several. Raises
    `UnsupportedModel` and `BadFile`, which name the tensor and what does not fit.
    """
    path = file.paths[0]
    _check_kind(file, base.arch)
    alpha = file.metadata.get(ALPHA, float, 0.0)
    if not isfinite(alpha):
        raise BadFile(path, f"{ALPHA} is {alpha}; expected a finite number")
    by_name = _by_name(base)
    pairs: dict[Tensor, Pair] = {}
    sources: dict[Tensor, str] = {}
    owners: dict[Tensor, Owner] = {}
    for name, (a, b) in _pairs(file).items():
        weight = by_name.get(name)
        if weight is None:
            if is_vision(name):
                raise BadFile(path, f"{name} is of a vision part, which adapters do not change")
            raise BadFile(path, f"{name} is missing in the model; choose the adapter's own model")
        use = base.uses.get(weight)
        if use is None or (use.op is Op.MATMUL_ID and weight.fmt is NVFP4):
            raise BadFile(path, f"{name} is no plain matrix of a product: it cannot be adapted")
        _check_shapes(file, weight, use, a, b)
        end = f".{number}" if number else ""
        left, right = (
            leaf(f"{weight.name}{part}{end}", info.fmt, info.shape, Role.WEIGHT)
            for part, info in ((A, a), (B, b))
        )
        rank = b.shape[0]
        pairs[weight] = Pair(left, right, alpha / rank if alpha else 1.0, use.axis)
        sources |= {left: a.name, right: b.name}
        is_table = use.op is Op.ROWS
        layer = base.owners[weight].layer
        owner = Owner(Component.ADAPTERS, 0 if layer is None else layer)
        owners |= {left: ROWS if is_table else owner, right: owner}
    if not pairs:
        raise BadFile(path, "it holds no pair of NAME.lora_a and NAME.lora_b")
    return Adapter(pairs, sources, owners)


def _check_kind(file: GGUFFile, arch: str) -> None:
    """Raises `UnsupportedModel` and `BadFile` for what is no LoRA adapter of this architecture."""
    path = file.paths[0]
    if not is_adapter(file):
        raise BadFile(path, "no LoRA adapter: general.type is not 'adapter'; open it as a model")
    kind = file.metadata.get(TYPE, str, "")
    if kind != "lora":
        raise UnsupportedModel("adapter", kind, ["lora"])
    if ALORA in file.metadata:
        what = "an aLoRA, which acts only after certain tokens of a prompt; choose a LoRA"
        raise UnsupportedModel("adapter", "alora", ["lora"], what)
    own = file.metadata.architecture
    if own != arch:
        raise BadFile(path, f"an adapter for {own}, and the model is {arch}; choose one for it")


def _pairs(file: GGUFFile) -> dict[str, tuple[TensorInfo, TensorInfo]]:
    """Both tensors of each matrix; norms beside them change nothing, as in llama.cpp. Raises
    `BadFile`.
    """
    path = file.paths[0]
    halves: dict[str, dict[str, TensorInfo]] = {A: {}, B: {}}
    for name, info in file.tensors.items():
        end = next((end for end in halves if name.endswith(end)), None)
        if end is not None:
            halves[end][name.removesuffix(end)] = info
        elif not name.endswith("_norm.weight"):
            raise BadFile(path, f"{name} is no tensor of an adapter, NAME.lora_a or NAME.lora_b")
    for end, other in ((A, B), (B, A)):
        alone = sorted(halves[end].keys() - halves[other].keys())
        if alone:
            raise BadFile(path, f"{alone[0]}{end} has no {alone[0]}{other} beside it")
    return {name: (a, halves[B][name]) for name, a in halves[A].items()}


def _by_name(base: Base) -> dict[str, Tensor]:
    """The leaves by their names in the file. A tied output matrix is that of `output.weight`: as
    in training, an adapter of the table of embeddings changes embeddings alone.
    """
    leaves = Counter(base.sources.values())
    return {
        weight.name if leaves[name] > 1 else name: weight
        for weight, name in base.sources.items()
        if not is_vision(name)
    }


def _scale_of(weight: Tensor) -> str:
    return weight.name.removesuffix("weight") + "scale"


def _check_shapes(file: GGUFFile, weight: Tensor, use: Use, a: TensorInfo, b: TensorInfo) -> None:
    """Raises `BadFile` unless the pair makes a matrix like the weight, of numbers that multiply."""
    path, (inner, outer, experts, _) = file.paths[0], weight.shape
    rank = b.shape[0]
    if use.op is Op.ROWS:
        wanted = {a: (rank, outer, 1, 1), b: (rank, inner, 1, 1)}
    else:
        wanted = {a: (inner, rank, experts, 1), b: (rank, outer, experts, 1)}
    for info, shape in wanted.items():
        if info.shape != shape:
            names = f"{weight.name} {_shown(weight.shape)}"
            have, want = _shown(info.shape), _shown(shape)
            raise BadFile(
                path, f"{info.name} is {have}; expected {want} for {names} and rank {rank}"
            )
        if info.fmt not in (F32, F16, BF16) and not info.fmt.quantized:
            raise BadFile(path, f"{info.name} is in {info.fmt}; expected F32, F16, BF16 or blocks")
    if not 1 <= rank <= MOST_RANK:
        raise BadFile(path, f"{b.name} has rank {rank}; expected 1 to {MOST_RANK}")


def _shown(shape: Sequence[int]) -> str:
    sizes = list(shape)
    while len(sizes) > 2 and sizes[-1] == 1:
        del sizes[-1]
    return str(sizes)


def adapted(p: Pass, graph: Graph, adapters: Mapping[int, Adapter]) -> Graph:
    """The graph with the products of these adapters, by number, behind those of the model's
    matrices. A result keeps its name; what the model's matrix alone gives is `NAME_base`, and what
    an adapter adds is `NAME_lora`.
    """
    rewrites: dict[Tensor, list[Rewrite]] = {}
    scaled = {node.src[0]: node for node in graph.nodes if _is_scaled(node)}
    for node in graph.nodes:
        weight = node.src[0] if node.src else None
        if weight is None or node.op not in (Op.MATMUL, Op.MATMUL_ID, Op.ROWS):
            continue
        found = {k: one.pairs[weight] for k, one in adapters.items() if weight in one.pairs}
        if found:
            rewrites[scaled.get(node, node)] = [_added(p, node, found)]
    made, current = graph.rewritten(rewrites)
    p.sites = [
        one._replace(
            node=current(one.node), entered=None if one.entered is None else current(one.entered)
        )
        for one in p.sites
    ]
    return made


def _is_scaled(node: Tensor) -> bool:
    """True if a product of four-bit floats is multiplied by the scale of its matrix: an adapter's
    is not.
    """
    if node.op is not Op.MUL:
        return False
    product, by = node.src[:2]
    if product is None or by is None or product.op is not Op.MATMUL or by.role is not Role.WEIGHT:
        return False
    weight = product.src[0]
    return weight is not None and by.name == _scale_of(weight)


def _added(p: Pass, node: Tensor, pairs: Mapping[int, Pair]) -> Rewrite:
    """Adds to the product `node` what the pairs make of its input."""

    def rewrite(now: Tensor, current: Current) -> Tensor:
        stem, dash, layer = now.name.rpartition("-")
        stem = stem if dash and layer.isdecimal() else now.name
        end = now.name[len(stem) :]
        named = not is_numbered(now.name)
        total = replace(now, name=f"{stem}_base{end}") if named else now
        for number, pair in pairs.items():
            more = _product(p, node, current, number, pair)
            total = ops.add(total, more.named(f"{stem}_lora{end}") if named else more)
        return total.named(now.name) if named else total

    return rewrite


def _product(p: Pass, node: Tensor, current: Current, number: int, pair: Pair) -> Tensor:
    """b (a x) times the tokens' scales."""
    x, ids = (None if one is None else current(one) for one in (*node.src[1:3], None)[:2])
    assert x is not None
    if node.op is Op.ROWS:
        low, axis = ops.rows(pair.a, x), 1
    elif node.op is Op.MATMUL_ID:
        assert ids is not None
        low, axis = ops.matmul_id(pair.a, x, ids), pair.axis
    else:
        low, axis = ops.matmul(pair.a, x, full_precision=_is_exact(node)), pair.axis
    n = low.shape[axis]
    scales = p.adapter_scales(number, pair.factor, n)
    low = ops.mul(low, scales.reshape(*[1] * axis, n))
    if node.op is Op.MATMUL_ID:
        assert ids is not None
        return ops.matmul_id(pair.b, low, ids)
    return ops.matmul(pair.b, low, full_precision=_is_exact(node))


def _is_exact(node: Tensor) -> bool:
    return node.op is Op.MATMUL and Matmul.of(node).full_precision
