"""From an open file to a bound architecture with its caches. Reads metadata, no weights."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Literal, NamedTuple, cast

from engine.device.backend import Component, Owner
from engine.errors import (
    BadFile,
    BadSetting,
    GivesNoText,
    NotSupported,
    OnlyRanks,
    ShapeError,
    UnsupportedModel,
)
from engine.gguf import GGUFFile
from engine.gguf.adapters import TYPE, is_adapter
from engine.gguf.formats import F16, Format
from engine.gguf.projectors import is_projector
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.tensor import Tensor
from engine.images.plan import Limits
from engine.kvcache.group import CacheGroup
from engine.layers.edits import NO_EDITS, EditShape
from engine.layers.step import LayerCache, LayerState, Pass
from engine.models import text
from engine.models.adapters import EXAMINED, Adapter, Base, Use, adapted, bind_adapter, uses_of
from engine.models.axes import Counts
from engine.models.base import (
    N_BEST,
    Architecture,
    Output,
    TextModel,
    TextParams,
    TextWeights,
    modules_in,
)
from engine.models.constants import read_constants
from engine.models.head import Head, Pooling, pooling_of, read_head
from engine.models.kept import CELL_STEP, CHECKPOINTS, make_caches, make_states
from engine.models.mtp import NextToken, bind_predicting
from engine.models.sites import EditableResults, edited
from engine.models.vision import is_vision
from engine.models.vision.base import TextHost
from engine.models.vision.build import BuiltTower, build_tower
from engine.weights.bind import Bound, bind
from engine.weights.params import read_params

HiddenRows = Literal["", "all", "wanted"]
"""Hidden states that a step gives beside its output: none, those of all tokens, or those of the
tokens whose logits are wanted.
"""


class StepShape(NamedTuple):
    """All that a step's graph depends on; equal shapes have equal graphs, and one plan.

    `cells` [caches] are how many cells of each cache attention may look at. `planes` are the rows
    that a picture brings for each of its places, 0 where all are tokens. `encoded` is how many rows
    enter the cache of cross attention, and how many of its cells may be looked at. `output` is by
    default what the model is for. `parts` are the sequences at most, where a state is carried.
    `hidden` are the states beside it, which a `predicting` block reads, and gives. `adapters` are
    the numbers of those that are active.
    """

    n_tokens: int
    n_outputs: int
    cells: tuple[int, ...]
    planes: int = 0
    encoded: tuple[int, int] | None = None
    output: Output | None = None
    parts: int = 1
    edits: EditShape = NO_EDITS
    hidden: HiddenRows = ""
    adapters: tuple[int, ...] = ()

    @property
    def counts(self) -> Counts:
        """Its tokens, outputs and cells."""
        return Counts(self.n_tokens, self.n_outputs, self.cells)

    def with_counts(self, counts: Counts) -> "StepShape":
        """The same kind of step, with other counts."""
        tokens, outputs, cells = counts
        return self._replace(n_tokens=tokens, n_outputs=outputs, cells=cells)


@dataclass(frozen=True)
class BuiltModel:
    """An architecture ready to make graphs.

    `sources` gives the file's tensor behind each leaf, `owners` whose bytes it is; `layers[i]` is
    what layer i keeps of single tokens and `states[i]` of all of them together, None for nothing.
    A step has at most `n_batch` tokens, of at most `n_sequences` sequences, each of which may grow
    to `n_ctx` as long as there are cells. Where it sees, those of its `tower` are among the first
    two, `planes` counts the rows that a picture brings for each of its places, and `limits` hold
    for every picture. `predicting` is the block behind its layers that predicts further tokens, as
    a model of that one layer, which reads the `hidden` states that this one gives. `adapters` may
    join the products of its matrices, in steps whose shape names them. `head` makes scores of a
    text's rows, where the file has one; `pooling` is how it wants its rows.
    """

    arch: str
    model: TextModel[TextParams, TextWeights]
    sources: Mapping[Tensor, str]
    owners: Mapping[Tensor, Owner]
    caches: CacheGroup
    layers: Sequence[LayerCache | None]
    states: Sequence[LayerState | None]
    n_ctx: int
    n_batch: int
    n_sequences: int = 1
    planes: int = 0
    tower: BuiltTower | None = None
    limits: Limits = Limits()
    predicting: "BuiltModel | None" = None
    hidden: HiddenRows = "all"
    adapters: tuple[Adapter, ...] = ()
    head: Head | None = None
    pooling: Pooling = Pooling.LAST

    @property
    def n_layer(self) -> int:
        return len(self.layers)

    @property
    def n_ctx_train(self) -> int:
        """The longest context it was trained for."""
        return self.model.params.n_ctx_train

    def kept_by(self, layer: int) -> list[tuple[Tensor, Owner]]:
        """All leaves that a layer keeps between steps, and whose bytes they are; the block that
        predicts counts as layer `n_layer`.
        """
        if layer == self.n_layer:
            return self.predicting.kept_by(layer) if self.predicting is not None else []
        cells, state = self.layers[layer], self.states[layer]
        owner = Owner(Component.CACHE, layer)
        found = [(leaf, owner) for leaf in cells.leaves] if cells is not None else []
        for leaf in state.leaves if state is not None else ():
            own = leaf.strides[1] * (leaf.shape[1] - CHECKPOINTS)
            rest = Component.CHECKPOINTS
            found.append((leaf, Owner(Component.STATE, layer, own=own, rest=rest)))
        return found

    @cached_property
    def has_sections(self) -> bool:
        """True if keys turn by places of several axes, which pictures have."""
        ropes = [layer.rope for layer in self.layers if layer is not None]
        return any(rope is not None and rope.sections is not None for rope in ropes)

    @property
    def output(self) -> Output:
        """The output by default."""
        return Output.LOGITS if Output.LOGITS in self.model.gives else Output.EMBEDDINGS

    def check_writes(self) -> None:
        """Raise `GivesNoText`, or `OnlyRanks`, for a model without logits."""
        if self.output is not Output.LOGITS:
            raise GivesNoText(self.arch) if self.head is None else OnlyRanks

    def width(self, output: Output) -> int:
        """How many numbers of that kind there are for a token."""
        if output is self.output:
            return self.one_token.outputs[0].shape[0]
        if output not in self._widths:
            empty = self.buckets([0] * len(self.caches.caches))
            _, graph = self.build(StepShape(1, 1, empty, output=output))
            self._widths[output] = graph.outputs[0].shape[0]
        return self._widths[output]

    @cached_property
    def one_token(self) -> Graph:
        """A step of one token with an empty cache, its attention in one operation."""
        return self.build(self.next_token)[1]

    @property
    def next_token(self) -> StepShape:
        """The shape of a step of one token with an empty cache; it attends to the rows of an
        encoder, if there is one.
        """
        encoded = None if self.model.encoder is None else (0, CELL_STEP)
        cells = self.buckets([0] * len(self.caches.caches))
        return StepShape(1, 1, cells, encoded=encoded)

    @cached_property
    def _widths(self) -> dict[Output, int]:
        return {}

    @property
    def n_vocab(self) -> int:
        """How many logits there are for a token; 0 where there are none."""
        return self.width(Output.LOGITS) if self.output is Output.LOGITS else 0

    def buckets(self, used: list[int]) -> tuple[int, ...]:
        """For each cache the plan's KV bucket: 256 doubled until it holds `used` cells."""
        caches = zip(used, self.caches.caches, strict=True)
        return tuple(bucket_of_cells(n, cache.n_cells) for n, cache in caches)

    def build(self, shape: StepShape, fused_attention: bool = True) -> tuple[Pass, Graph]:
        """The graph of one forward pass: logits [V, n_outputs], the best of these [2 * N_BEST,
        n_outputs] or embeddings [E, n_outputs], with its results hooked where edits say; then the
        hidden states, if any.
        """
        p = Pass(
            shape.n_tokens,
            shape.n_outputs,
            shape.cells,
            fused_attention,
            shape.planes,
            shape.encoded,
            self.states,
            shape.parts,
            shape.hidden == "all",
        )
        hidden = x = self.model.hidden(p, self.layers)
        if p.whole:
            x = p.wanted(x)
        output = shape.output or self.output
        if output is not Output.EMBEDDINGS:
            x = self.model.logits(x)
        if output is Output.BEST:
            x = ops.best(x, min(N_BEST, x.shape[0])).named("result_best")
        graph = Graph.of([x, hidden] if shape.hidden else [x], p.effects)
        if shape.adapters:
            graph = adapted(p, graph, {i: self.adapters[i] for i in shape.adapters})
        return p, edited(p, graph, shape.edits, self.results) if shape.edits.points else graph

    def build_encoder(self, n_tokens: int) -> tuple[Pass, Graph]:
        """The graph of an encoder's pass over a prompt: rows [E, n_tokens]; it pauses behind each
        block.
        """
        encoder = self.model.encoder
        assert encoder is not None, f"{self.arch} has no encoder"
        p = Pass(n_tokens, n_tokens, (), whole=True)
        rows = encoder.hidden(p, [None] * encoder.params.n_layer)
        pauses = [site.node for site in p.sites if site.name == "residual"]
        return p, Graph.of([rows], pauses=pauses)

    @property
    def all_adapters(self) -> tuple[int, ...]:
        """The numbers of all adapters."""
        return tuple(range(len(self.adapters)))

    @cached_property
    def of_adapters(self) -> frozenset[Tensor]:
        """The leaves among its sources that are adapters', of files of their own."""
        return frozenset(tensor for one in self.adapters for tensor in one.sources)

    @property
    def _uses(self) -> dict[Tensor, Use | None]:
        empty = self.buckets([0] * len(self.caches.caches))
        tokens, outputs, _ = EXAMINED
        return uses_of(self.build(StepShape(tokens, outputs, empty))[1])

    @cached_property
    def results(self) -> EditableResults:
        """The results that edits can name."""

        def build(counts: Counts) -> tuple[Pass, Graph]:
            encoded = None if self.caches.encoded is None else (1, CELL_STEP)
            return self.build(StepShape(*counts, encoded=encoded))

        cells = self.buckets([0] * len(self.caches.caches))
        return EditableResults.of(build, cells, self.model.n_heads)


def bucket_of_cells(n: int, most: int) -> int:
    """The KV bucket: 256 doubled until it holds n cells."""
    size = CELL_STEP
    while size < n:
        size *= 2
    return min(size, most)


BLOCK = re.compile(r"blk\.(\d{1,8})\.", re.ASCII)
MTP = "mtp."
"""What Ollama calls the tensors that predict further tokens."""
CROSS_BIAS = ".cross_attn_rel_b.weight"
"""In early files of T5, whose own class never reads it."""
INDEX = ".indexer."
"""In names of tensors that choose tokens to look at: contexts are as short as to need no choice."""

MODULES = {
    "command-r": "command_r",
    "ernie4_5-moe": "ernie4_5",
    "falcon-h1": "falcon_h1",
    "gemma-embedding": "gemma_embedding",
    "gpt-oss": "gpt_oss",
    "glm-dsa": "deepseek32",
    "granitemoe": "granite",
    "exaone-moe": "exaone_moe",
    "hunyuan-dense": "hunyuan_dense",
    "hunyuan-moe": "hunyuan_moe",
    "hunyuan_vl": "hunyuan_dense",
    "jina-bert-v3": "jina_bert_v3",
    "kimi-linear": "kimi_linear",
    "llama-embed": "llama_embed",
    "minimax-m2": "minimax_m2",
    "minimax-m3": "minimax_m3",
    "modern-bert": "modern_bert",
    "muse-glimmer": "muse_glimmer",
    "neo-bert": "neo_bert",
    "nomic-bert": "nomic_bert",
    "nomic-bert-moe": "nomic_bert_moe",
    "qwen25vl": "qwen2vl",  # in files that Ollama made
    "qwen3vlmoe": "qwen3vl",
    "hy_v3": "dots1",
    "internlm2": "llama",
    "jais2": "nemotron",
    "jina-bert-v2": "jina_bert_v2",
    "orion": "stablelm",
    "paddleocr": "qwen2vl",
    "pangu-embedded": "qwen2",
    "qwen": "qwen2",
    "seed_oss": "qwen2",
    "starcoder": "gpt2",
    "xverse": "llama",
}
"""Architectures whose module has another name than they."""


def supported() -> list[str]:
    """The architectures that can be opened."""
    modules = set(modules_in(tuple(text.__path__)))
    dashed = {name.replace("-", "_") for name in MODULES if "-" in name}
    return sorted((modules - dashed) | MODULES.keys())


def find(arch: str) -> Architecture:
    """The module of an architecture. Raises `UnsupportedModel`."""
    name = MODULES.get(arch, arch.replace("-", "_"))
    if name not in modules_in(tuple(text.__path__)):
        raise unsupported(arch, supported())
    return cast(Architecture, import_module(f"{text.__name__}.{name}"))


def build_model(
    file: GGUFFile,
    n_ctx: int | None,
    n_batch: int,
    kv: Format = F16,
    n_sequences: int = 1,
    n_cells: int | None = None,
    predicts: bool = False,
) -> BuiltModel:
    """Bind a file's names; keys and values are kept in `kv`, of `n_cells` tokens for all sequences
    together: None means one context's, 0 each sequence's own. With `predicts` also those of the
    block that predicts further tokens, if there is one.

    `n_ctx` None means min(4096, what it was trained for). Raises `UnsupportedModel`, `BadFile`,
    `TensorMismatch`, and `BadSetting` where heads are no whole blocks of `kv`.
    """
    check(file, supported())
    path, arch = file.paths[0], file.metadata.architecture
    module = find(arch)
    params = read_params(module.Params, file)
    if problem := params.problem():
        raise BadFile(path, f"metadata: {arch}.{problem}")
    head = read_head(file, params, module.Model.whole)
    bound = _bind(module, file, params, () if head is None else head.names)
    constants = read_constants(params.constants(), file)
    try:
        wanted = _context(n_ctx, params)
        model = module.Model(params, bound.weights, constants, wanted)
        kept = model.kept()
        if model.whole:
            n_sequences = 1  # it keeps nothing between steps
        together = wanted * n_sequences if n_cells == 0 else n_cells or wanted
        caches, layers = make_caches(kept, wanted, n_batch, kv, n_sequences, together)
        held = (caches, layers, make_states(kept, n_sequences))
        sizes = (wanted, wanted if model.whole else n_batch, n_sequences)
        built = BuiltModel(arch, model, bound.sources, bound.owners, *held, *sizes)
        pooling = pooling_of(file.metadata, model.whole, head is not None)
        built = replace(built, head=head, pooling=pooling)
        assert built.width(built.output)  # every shape fits
        if predicts:
            built = _with_predicting(built, file, module, bound.weights, kv, together)
    except ShapeError as error:
        raise BadFile(path, f"its tensors do not fit {arch}: {error}") from error
    return built


def _context(requested: int | None, params: TextParams) -> int:
    """How many tokens a context has. Raises `BadSetting` for more than are computed exactly."""
    exact = params.n_ctx_exact or params.n_ctx_train
    if requested is not None and min(requested, params.n_ctx_train) > exact:
        expected = f"at most {exact}; an index chooses what longer ones see: not computed here"
        raise BadSetting("ctx", requested, expected)
    return min(requested or 4096, exact, params.n_ctx_train)


def _with_predicting(
    built: BuiltModel,
    file: GGUFFile,
    module: Architecture,
    weights: TextWeights,
    kv: Format,
    n_cells: int,
) -> BuiltModel:
    """The model with the block behind its layers, whose keys and values are its own."""
    bound = bind_predicting(module, file.tensors, built.arch, built.n_layer)
    if bound is None:
        return built
    whole = built.model
    arguments = (whole.params, weights, bound.weights, whole.constants, whole.n_ctx)
    model = NextToken.of(module, *arguments)
    if model is None:
        return built
    sizes = (built.n_ctx, built.n_batch, kv, built.n_sequences, n_cells)
    caches, layers = make_caches(model.kept(), *sizes)
    predicting = replace(
        built,
        model=cast(TextModel[TextParams, TextWeights], model),
        sources=bound.sources,
        owners=bound.owners,
        caches=caches,
        layers=layers,
        states=[None] * len(layers),
        planes=1,
        hidden="wanted",
    )
    assert predicting.width(Output.LOGITS)  # every shape fits
    return replace(
        built,
        sources={**built.sources, **bound.sources},
        owners={**built.owners, **bound.owners},
        predicting=predicting,
    )


def with_tower(
    built: BuiltModel, file: GGUFFile, has_token: Callable[[str], bool], rows: int | None = None
) -> BuiltModel:
    """The model with the tower of a file, which may be its own; `has_token` knows its vocabulary.

    A picture may take `rows`, and half of the context. Raises `UnsupportedModel`, `BadFile` and
    `TensorMismatch`.
    """
    params = built.model.params
    sizes = (params.n_embd, built.n_layer, params.eps)
    model = built.model
    traits = (model.n_deepstack, model.joins_pictures, built.has_sections)
    host = TextHost(built.arch, *sizes, has_token, *traits)
    tower = build_tower(file, host)
    return replace(
        built,
        sources={**built.sources, **tower.sources},
        owners={**built.owners, **tower.owners},
        planes=1 + tower.tower.deepstack,
        tower=tower,
        limits=Limits(min(rows or built.n_ctx, max(1, built.n_ctx // 2))),
    )


def with_adapters(built: BuiltModel, files: Sequence[GGUFFile]) -> BuiltModel:
    """The model with the adapters of these files, none of them active. Raises `UnsupportedModel`,
    `BadFile`, and `NotSupported` for models whose layers look at pictures by themselves.
    """
    if not files:
        return built
    if built.caches.encoded is not None:
        raise NotSupported("an adapter for a model with cross-attention")
    further = {} if built.predicting is None else built.predicting.sources
    own = {tensor: name for tensor, name in built.sources.items() if tensor not in further}
    base = Base(built.arch, own, built.owners, built._uses)
    adapters = tuple(bind_adapter(file, base, i) for i, file in enumerate(files))
    sources, owners = dict(built.sources), dict(built.owners)
    for one in adapters:
        sources.update(one.sources)
        owners.update(one.owners)
    return replace(built, adapters=adapters, sources=sources, owners=owners)


def _bind(
    module: Architecture, file: GGUFFile, params: TextParams, of_head: Collection[str]
) -> Bound[TextWeights]:
    """The text model's weights; a tower in the same file is left alone, and so are the tensors of
    a head and blocks behind the last, which predict further tokens (`_with_predicting`).

    Nothing walks `block_count` before it is compared with the blocks that are there.
    """
    weights = {name: t for name, t in file.tensors.items() if not _is_left(name, params)}
    others = [*of_head, *(constant.name for constant in params.constants())]
    arch = file.metadata.architecture
    bound = bind(module.Weights, weights, arch, params.n_layer, others)
    if not bound.weights.blocks and params.n_layer < params.n_block:
        what = "it holds the block that predicts further tokens, and none of the model's"
        raise BadFile(file.paths[0], f"{what}; open the model's own file")
    if len(bound.weights.blocks) != params.n_layer:
        problem = f"block_count is {params.n_block} but the tensors make"
        raise BadFile(file.paths[0], f"{problem} {len(bound.weights.blocks)} blocks")
    return bound


def _is_left(name: str, params: TextParams) -> bool:
    """True if a tensor is of a tower or an index of tokens, or predicts further ones."""
    block = BLOCK.match(name)
    further = block is not None and params.n_layer <= int(block[1]) < params.n_block
    unused = name.startswith(MTP) or INDEX in name or name.endswith(CROSS_BIAS)
    return further or unused or is_vision(name)


_KINDS = (
    (
        "a diffusion language model",
        "dream llada llada-moe rnd1 diffusion-gemma",
    ),
    ("a model of speech", "wavtokenizer-dec qwen3tts pockettts talkie"),
    ("a draft model for speculative decoding", "eagle3 dflash gemma4-assistant"),
    (
        "a server-size model with sparse attention",
        "deepseek4 glm5-next hy_v4",
    ),
    ("a model whose states decay by channel", "kimi-k3"),
    ("an experimental architecture", "qwen4exp"),
    ("BitNet in I2_S, a type of bitnet.cpp alone", "bitnet-25"),
)
KINDS = {name: what for what, names in _KINDS for name in names.split()}
"""What architectures are that another way of computing keeps out, by `general.architecture`."""

FIRST_EXPERT = "blk.0.ffn_gate.0.weight"
"""As early files of Mixtral have them."""


def unsupported(arch: str, supported: list[str]) -> UnsupportedModel:
    """The refusal of an architecture that has no module."""
    return UnsupportedModel("architecture", arch, supported, KINDS.get(arch, ""))


def check(file: GGUFFile, supported: list[str]) -> None:
    """Raises `UnsupportedModel` for a file that is no model of its own."""
    if is_projector(file):
        what = "an image projector; open the language model in the same folder, which loads it too"
        raise UnsupportedModel("architecture", "clip", supported, what)
    if is_adapter(file):
        kind = file.metadata.get(TYPE, str, "lora")
        what = "a LoRA adapter; open its model and give it this file with --lora"
        raise UnsupportedModel("adapter", kind, supported, what)
    if FIRST_EXPERT in file.tensors:
        what = "a file from before April 2024; convert or download the model again"
        layouts = ["experts of a layer in one tensor (ffn_gate_exps)"]
        raise UnsupportedModel("an expert in a tensor of its own,", FIRST_EXPERT, layouts, what)
