"""From an open file to a bound architecture with its caches. Reads metadata, no weights."""

from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from engine.errors import BadFile, BadSetting, ShapeError, UnsupportedModel
from engine.gguf import GGUFFile
from engine.gguf.formats import F16, Format
from engine.graph.graph import Graph
from engine.graph.tensor import Role, Tensor, leaf
from engine.kvcache.causal import CausalCache
from engine.kvcache.group import CacheGroup
from engine.layers.step import LayerCache, Pass
from engine.memory.placement import is_vision, layer_of
from engine.models import text
from engine.models.base import CacheShape, TextModel
from engine.weights.bind import bind, read_params

CELL_STEP = 256


@dataclass(frozen=True)
class BuiltModel:
    """An architecture ready to make graphs. `sources` gives the file's tensor behind each leaf."""

    arch: str
    model: TextModel
    sources: dict[Tensor, str]
    shapes: list[CacheShape]
    caches: CacheGroup
    layers: list[LayerCache]
    n_ctx: int
    n_ctx_train: int
    n_vocab: int

    @property
    def n_layer(self) -> int:
        return len(self.layers)

    def buckets(self, used: list[int]) -> tuple[int, ...]:
        """For each cache the plan's KV bucket: 256 doubled until it holds `used` cells."""
        sizes = []
        for n, cache in zip(used, self.caches.caches, strict=True):
            size = CELL_STEP
            while size < n:
                size *= 2
            sizes.append(min(size, cache.n_cells))
        return tuple(sizes)

    def build(
        self, n_tokens: int, n_outputs: int, cells: tuple[int, ...], fused_attention: bool = True
    ) -> tuple[Pass, Graph]:
        """The graph of one forward pass whose output is the logits [V, n_outputs]."""
        p = Pass(n_tokens, n_outputs, cells, fused_attention)
        return p, Graph.of([self.model.forward(p, self.layers)])

    def layer_of(self, name: str) -> int | None:
        """The block a tensor counts with; the output block is `n_layer`, the embedding has none."""
        return layer_of(name, self.n_layer)


def supported() -> list[str]:
    """The architectures that have a file here."""
    return sorted(module.name for module in iter_modules(text.__path__))


def find(arch: str) -> ModuleType:
    """The module of an architecture. Raises `UnsupportedModel`."""
    name = arch.replace("-", "_")
    if name not in supported():
        raise UnsupportedModel("architecture", arch, supported())
    return import_module(f"engine.models.text.{name}")


def build_model(file: GGUFFile, n_ctx: int | None, n_batch: int, kv: Format = F16) -> BuiltModel:
    """Bind a file's names; keys and values are kept in `kv`.

    `n_ctx` None means min(4096, what it was trained for). Raises `UnsupportedModel`, `BadFile`,
    `TensorMismatch`, and `BadSetting` where heads are no whole blocks of `kv`.
    """
    arch = file.metadata.architecture
    module = find(arch)
    params = read_params(module.Params, file)
    seeing = {name: t for name, t in file.tensors.items() if is_vision(name)}
    weights = {name: t for name, t in file.tensors.items() if name not in seeing}
    bound = bind(module.Weights, weights, arch, module.IGNORED)
    vision = {leaf(name, t.fmt, t.shape, Role.WEIGHT): name for name, t in seeing.items()}
    constants = {name: file.array(name).tolist() for name in module.IGNORED if name in file.tensors}
    try:
        model: TextModel = module.Model(params, bound.model, constants)
        shapes = model.caches()
        wanted = min(n_ctx or min(4096, params.n_ctx_train), params.n_ctx_train)
        caches, layers = _caches(shapes, wanted, n_batch, kv)
        built = BuiltModel(
            arch,
            model,
            {**bound.sources, **vision},
            shapes,
            caches,
            layers,
            wanted,
            params.n_ctx_train,
            bound.model.output.weight.shape[1],
        )
        if len(bound.model.blocks) != params.n_layer:
            raise BadFile(
                file.paths[0],
                f"block_count is {params.n_layer} but the tensors make {len(bound.model.blocks)}",
            )
        built.build(1, 1, built.buckets([0] * len(caches.caches)))
    except (ShapeError, ArithmeticError) as error:
        raise BadFile(file.paths[0], f"its tensors do not fit {arch}: {error}") from error
    return built


def _caches(
    shapes: list[CacheShape], n_ctx: int, n_batch: int, kv: Format
) -> tuple[CacheGroup, list[LayerCache]]:
    """One cache for each distinct window; the leaves of every layer's keys and values."""
    for dim in (d for s in shapes for d in (s.key_dim, s.value_dim)):
        if dim % kv.block:
            expected = f"f16 or f32: a head of {dim} is no multiple of its blocks of {kv.block}"
            raise BadSetting("kv", kv.name.lower(), expected)
    windows = list(dict.fromkeys(s.window for s in shapes))
    full = _up(n_ctx)
    caches = [CausalCache(full if w is None else min(full, _up(w + n_batch)), w) for w in windows]
    layers = []
    for i, s in enumerate(shapes):
        index = windows.index(s.window)
        n_cells = caches[index].n_cells
        layers.append(
            LayerCache(
                leaf(f"cache_k_l{i}", kv, (s.key_dim * s.heads, n_cells), Role.CACHE),
                leaf(f"cache_v_l{i}", kv, (s.value_dim * s.heads, n_cells), Role.CACHE),
                s.heads,
                index,
            )
        )
    return CacheGroup(caches), layers


def _up(n: int) -> int:
    return -(-n // CELL_STEP) * CELL_STEP
