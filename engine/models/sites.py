"""The results of a model that edits can name, and a graph in which some of them are hooked."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Self, TypeVar, get_args

from engine.gguf.formats import F32
from engine.graph.graph import Current, Graph, Rewrite, is_numbered
from engine.graph.op import VIEW_OPS
from engine.graph.tensor import Tensor
from engine.layers.edits import NONE, EditShape, Point
from engine.layers.step import Pass, SiteName
from engine.models.axes import Counts
from engine.scheduler.probes import named_results

ALIASES: frozenset[str] = frozenset(get_args(SiteName))
BY_EXPERT, EXPERTS = "ffn_moe_down", "ffn_moe_topk"
"""The result with a row for each of a token's experts, and which experts these are."""
_OF_LAYER = re.compile(r"(.+)-(\d{1,6})", re.ASCII)
_TOKENS, _OUTPUTS = 4, 2


class Place(NamedTuple):
    """Locate a result: `site` without the layer, NONE for no layer."""

    site: str
    layer: int


class Found(NamedTuple):
    """A node with what entered its layer, where that is known."""

    node: Tensor
    entered: Tensor | None = None


class Editable(NamedTuple):
    """A result of `width` numbers for each token, or for each output, in `heads` equal parts (0:
    none); with `slots` experts it has so many such rows. `problem` says why it cannot be edited.
    `name` is what it is called once it is edited, without its layer.
    """

    width: int
    heads: int = 0
    of_outputs: bool = False
    slots: int = 1
    problem: str = ""
    name: str = ""


def found_in(p: Pass, graph: Graph) -> Mapping[Place, Sequence[Found]]:
    """All named results of a graph and those of its aliases, each in order."""
    found: defaultdict[Place, list[Found]] = defaultdict(list)
    for key, node in named_results(graph):
        parts = _OF_LAYER.fullmatch(key.name)
        place = Place(parts[1], int(parts[2])) if parts else Place(key.name, NONE)
        found[place].append(Found(node))
    for site in p.sites:
        found[Place(site.name, site.layer)].append(Found(site.node, site.entered))
    return found


class EditableResults:
    """List the results that edits can name: all but their shapes is the same in every graph of a
    model.
    """

    def __init__(self, found: Mapping[Place, Sequence[Editable]]) -> None:
        self._found = found

    @classmethod
    def of(
        cls,
        build: Callable[[Counts], tuple[Pass, Graph]],
        cells: tuple[int, ...],
        n_heads: Callable[[int], int],
    ) -> Self:
        """Results of the graphs that `build` makes; where their shapes differ, tokens or outputs
        are counted.
        """
        counts = (
            Counts(_TOKENS, _OUTPUTS, cells),
            Counts(2 * _TOKENS, _OUTPUTS, cells),
            Counts(_TOKENS, _OUTPUTS + 1, cells),
        )
        base, tokens, outputs = (found_in(*build(each)) for each in counts)
        return cls(
            {
                place: [
                    _editable(place, one.node, more.node, fewer.node, base, n_heads)._replace(
                        name=edited_name(place.site, one.node.name)
                    )
                    for one, more, fewer in zip(results, tokens[place], outputs[place], strict=True)
                ]
                for place, results in base.items()
            }
        )

    @property
    def sites(self) -> list[str]:
        """Names, without layers, in the graph's order."""
        return list(dict.fromkeys(place.site for place in self._found))

    def layers(self, site: str) -> list[int]:
        """The layers that have a result of this name; empty if it belongs to none."""
        return sorted(one.layer for one in self._found if one.site == site and one.layer != NONE)

    def at(self, site: str, layer: int) -> Sequence[Editable]:
        """All results of this name, in order; none if there is no such result."""
        return self._found.get(Place(site, layer), ())

    def chosen(self, point: Point) -> Sequence[Editable]:
        """Return the results that a point hooks."""
        return chosen(self.at(point.site, point.layer), point)


R = TypeVar("R", Editable, Found)


def chosen(results: Sequence[R], point: Point) -> Sequence[R]:
    """Return those of the results of one name that a point means."""
    if point.occurrence != NONE:
        return results[point.occurrence : point.occurrence + 1]
    return results if point.site in ALIASES else results[-1:]


def _editable(
    place: Place,
    node: Tensor,
    more_tokens: Tensor,
    more_outputs: Tensor,
    base: Mapping[Place, Sequence[Found]],
    n_heads: Callable[[int], int],
) -> Editable:
    dims = node.dims
    by_tokens, by_outputs = (
        [d for d in range(4) if other.shape[d] != node.shape[d]]
        for other in (more_tokens, more_outputs)
    )
    last = len(dims) - 1
    of_outputs = by_outputs == [last]
    counted = _OUTPUTS if of_outputs else _TOKENS
    if node.fmt is not F32:
        return Editable(0, problem=f"its type is {node.fmt.name}")
    if (by_tokens != [last] and not of_outputs) or node.shape[last] % counted:
        return Editable(0, problem="tokens are not its slowest axis")
    whole = node.storage is node or (
        node.op in VIEW_OPS and node.nelements == node.storage.nelements
    )
    if not (whole and node.is_contiguous):
        return Editable(0, problem="it is a view of a part of another result")
    width = node.nelements // counted
    if place.site == BY_EXPERT and Place(EXPERTS, place.layer) in base:
        return Editable(node.shape[0], 0, of_outputs, width // node.shape[0])
    heads = dims[1] if len(dims) == 3 else 0
    if place.site in ("heads", "kqv_out", "attn_gated") and place.layer != NONE:
        heads = n_heads(place.layer)
    return Editable(width, heads if heads and width % heads == 0 else 0, of_outputs)


def edited(p: Pass, graph: Graph, shape: EditShape, known: EditableResults) -> Graph:
    """The graph with an EDIT behind each result that a point names; what this graph does not have,
    such as layers that look at pictures, is left alone.
    """
    found = found_in(p, graph)
    rewrites: defaultdict[Tensor, list[Rewrite]] = defaultdict(list)
    for k, point in enumerate(shape.points):
        kinds = known.chosen(point)
        results = chosen(found.get(Place(point.site, point.layer), ()), point)
        for one, kind in zip(results, kinds, strict=False):
            experts = found[Place(EXPERTS, point.layer)][-1].node if kind.slots > 1 else None
            rewrite = partial(_hooked, p=p, k=k, shape=shape, kind=kind, one=one, experts=experts)
            rewrites[one.node].append(rewrite)
    return graph.edited(rewrites)


def _hooked(
    now: Tensor,
    current: Current,
    p: Pass,
    k: int,
    shape: EditShape,
    kind: Editable,
    one: Found,
    experts: Tensor | None,
) -> Tensor:
    point, entered = shape.points[k], None
    if point.delta and one.entered is not None:
        same = one.entered.shape == one.node.shape
        entered = current(one.entered if same else p.prune(one.entered))
    ids = None if experts is None else current(experts)
    made = p.edited(now, k, shape, kind.of_outputs, kind.slots, entered, ids)
    name = edited_name(point.site, one.node.name)
    return made.named(name, None if point.layer == NONE else point.layer)


def edited_name(site: str, name: str) -> str:
    """The name of an edited result without its layer: `l_out_edited` of `l_out-3`, that of the site
    for a result without a name.
    """
    stem = site if not name or is_numbered(name) else name.rpartition("-")[0]
    return f"{stem or name}_edited"


def unknown(sites: Iterable[str], site: str) -> str:
    """Describe what is expected instead of a name that no result has."""
    from difflib import get_close_matches  # its import takes longer than the look-up

    near = get_close_matches(site, list(sites), 5) or sorted(ALIASES)
    return f"the name of a result; near: {', '.join(near)}"
