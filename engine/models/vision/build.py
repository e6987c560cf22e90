"""From an open file, an mmproj or the single file that Ollama makes, to a bound tower."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain
from typing import cast

from engine.device.backend import Component, Owner
from engine.errors import BadFile, ShapeError, TensorMismatch, UnsupportedModel
from engine.gguf import GGUFFile, TensorInfo
from engine.graph.graph import Graph
from engine.graph.tensor import Tensor
from engine.layers.vision.tower import TowerPass
from engine.models import vision
from engine.models.base import modules_in
from engine.models.constants import Constant, Values, read_constants
from engine.models.vision import is_vision
from engine.models.vision.base import Family, TextHost, Tower, TowerParams, TowerWeights
from engine.weights.bind import Bound, bind
from engine.weights.params import Range, read_params

MMPROJ = "clip"
FRAME = ("base", "build")
IGNORED = ("a.", "mm.a.")
"""Parts for sound, in files that have one for images."""
VALUES = Range(-1e6, 1e6)
"""Of a learned row."""


@dataclass(frozen=True)
class BuiltTower:
    """A tower ready to make graphs.

    `kind` is the projector's type, or a single file's architecture. `sources` gives the file's
    tensor behind each leaf, `owners` whose bytes it is; `learned` are rows f32 [E] that pieces of
    a plan name.
    """

    kind: str
    tower: Tower[TowerParams, TowerWeights]
    sources: Mapping[Tensor, str]
    owners: Mapping[Tensor, Owner]
    learned: Mapping[str, Values]

    def build(self, n: int) -> tuple[TowerPass, Graph]:
        """The graph of one pass over n patches: rows [E * (1 + deepstack), rows]; it pauses behind
        each block.
        """
        p = TowerPass(n)
        rows = self.tower.forward(p).named("v/projected")
        return p, Graph.of([rows], pauses=p.pauses)


def has_tower(file: GGUFFile) -> bool:
    """True if the file is an mmproj, or holds a tower beside its text model."""
    return file.metadata.architecture == MMPROJ or any(map(is_vision, file.tensors))


def families() -> list[Family]:
    """The modules of all families."""
    names = [name for name in modules_in(tuple(vision.__path__)) if name not in FRAME]
    return [cast(Family, import_module(f"{vision.__name__}.{name}")) for name in names]


def supported() -> list[str]:
    """The projectors' types that have a module."""
    return sorted(kind for family in families() for kind in family.Model.projectors)


def kind_of(file: GGUFFile) -> str:
    """An mmproj's type of projector, or a single file's architecture. Raises `BadFile`."""
    arch = file.metadata.architecture
    if arch != MMPROJ:
        return arch
    path = file.paths[0]
    if not file.metadata.get("has_vision_encoder", bool, True):
        raise BadFile(path, "this projector is for sound, not for pictures; use another file")
    for key in ("vision.projector_type", "projector_type"):
        if key in file.metadata:
            return file.metadata.get(key, str)
    for old, kind in (("has_llava_projector", "mlp"), ("has_minicpmv_projector", "resampler")):
        if file.metadata.get(old, bool, False):
            return kind
    raise BadFile(path, "metadata has no 'clip.projector_type'; expected the projector's type")


def find(kind: str, is_single: bool) -> Family:
    """The module of a projector's type or a single file's architecture.

    Raises `UnsupportedModel`.
    """
    for family in families():
        model = family.Model
        if kind in (model.architectures if is_single else model.projectors):
            return family
    if is_single:
        known = sorted(a for family in families() for a in family.Model.architectures)
        raise UnsupportedModel("a vision tower inside", kind, known)
    raise UnsupportedModel("projector", kind, supported())


def build_tower(file: GGUFFile, host: TextHost) -> BuiltTower:
    """Bind a file's names; `file` is an mmproj, or the text model's own file. Reads no weights.

    Raises `UnsupportedModel`, `BadFile` and `TensorMismatch`.
    """
    path, kind = file.paths[0], kind_of(file)
    is_single = file.metadata.architecture != MMPROJ
    family = find(kind, is_single)
    _check_host(family, file, kind, host)
    params = read_params(family.Params, file)
    if problem := params.problem():
        raise BadFile(path, f"metadata: {problem}")
    constants = params.constants()
    rows = [
        Constant(name, (host.n_embd,), VALUES) for name in chain(*family.Model.learned.values())
    ]
    others = [constant.name for constant in (*constants, *rows)]
    bound = _bind(family, file, kind, params, others)
    numbers = read_constants(constants, file)
    try:
        tower = family.Model(params, bound.weights, numbers, host, is_single)
        owners = dict.fromkeys(bound.sources, Owner(Component.VISION, host.n_layer))
        learned = _learned(family.Model, read_constants(rows, file))
        if missing := tower.missing(learned):
            raise TensorMismatch(kind, missing, ())
        built = BuiltTower(kind, tower, bound.sources, owners, learned)
        _, graph = built.build(tower.bucket(1))
    except ShapeError as error:
        raise BadFile(path, f"its tensors do not fit {kind}: {error}") from error
    _check_width(file, graph.outputs[0].shape[0], tower.deepstack, host)
    return built


def _check_width(file: GGUFFile, width: int, deepstack: int, host: TextHost) -> None:
    problem = ""
    if host.n_deepstack not in (None, deepstack):
        layers = f"the text model adds such in {host.n_deepstack} layers"
        problem = f"it makes {deepstack} additional rows for each place, {layers}"
    elif width != host.n_embd * (1 + deepstack):
        wanted = host.n_embd * (1 + deepstack)
        problem = f"its rows are {width} wide, those of the text model {wanted}"
    if problem:
        raise BadFile(file.paths[0], f"{problem}: it belongs to another model")


def _check_host(family: Family, file: GGUFFile, kind: str, host: TextHost) -> None:
    model = family.Model
    if host.arch not in model.hosts:
        what = f"a {kind} projector for the architecture"
        raise UnsupportedModel(what, host.arch, model.hosts)
    if model.axes and not host.has_axes:
        raise BadFile(
            file.paths[0],
            "the text model's file has no rope.dimension_sections, by which rows of a"
            f" {kind} projector are placed; take one that a newer llama.cpp converted",
        )
    missing = [token for token in model.tokens if not host.has_token(token)]
    if missing:
        listed = ", ".join(map(repr, missing))
        problem = f"the text model's vocabulary has no {listed}, which a {kind} projector needs"
        raise BadFile(file.paths[0], f"{problem}: it belongs to another model")


def _learned(
    model: type[Tower[TowerParams, TowerWeights]], rows: Mapping[str, Values]
) -> Mapping[str, Values]:
    """By the names that pieces have."""
    named = ((piece, rows[n]) for piece, names in model.learned.items() for n in names if n in rows)
    return dict(named)


def _bind(
    family: Family, file: GGUFFile, kind: str, params: TowerParams, others: list[str]
) -> Bound[TowerWeights]:
    """Nothing walks `block_count` before it is compared with the blocks that are there."""
    skipped = (*IGNORED, *family.Model.ignored)
    is_mmproj = file.metadata.architecture == MMPROJ
    tensors = {
        name: info
        for name, info in upright(file.tensors, params.n_embd).items()
        if (is_mmproj or is_vision(name)) and not name.startswith(skipped)
    }
    bound = bind(family.Weights, tensors, kind, 0, others)
    if len(bound.weights.blocks) != params.n_layer:
        problem = f"vision.block_count is {params.n_layer} but the tensors make"
        raise BadFile(file.paths[0], f"{problem} {len(bound.weights.blocks)} blocks")
    sources = {tensor: tensors[name].name for tensor, name in bound.sources.items()}
    return replace(bound, sources=sources)


def upright(tensors: Mapping[str, TensorInfo], n_embd: int) -> Mapping[str, TensorInfo]:
    """Old files call a feed-forward's two matrices by each other's name; here each by its own.

    `ffn_down.weight` is [F, E]: where it begins with E, it is the other one.
    """
    down = tensors.get("v.blk.0.ffn_down.weight")
    if down is None or down.shape[0] != n_embd or down.shape[1] == n_embd:
        return tensors
    swapped = {"ffn_down": "ffn_up", "ffn_up": "ffn_down"}

    def name(old: str) -> str:
        head, _, rest = old.rpartition(".ffn_")
        part, _, last = f"ffn_{rest}".partition(".")
        return f"{head}.{swapped[part]}.{last}" if part in swapped and head else old

    return {name(old): info for old, info in tensors.items()}
