"""Names in a GGUF file to fields of a model, declared by annotations and strict both ways.

A field `q: Annotated[Linear, Name("attn_q")]` adds `attn_q` to the path; a field without a marker
groups and adds nothing; `list[Block]` adds an index, `dict[int, Block]` one that skips numbers;
`X | None` is optional, of `X | Y` the first whose tensors are all there is taken; a `Tensor` field
ends the path. A dataclass may be generic: `Block[Attention]` has its type variables filled in. The
first index on its path is the layer that a tensor belongs to.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from engine.device.backend import Component, Owner
from engine.errors import TensorMismatch
from engine.gguf import TensorInfo
from engine.graph.tensor import Role, Tensor, leaf

T = TypeVar("T")
Path = tuple[str, ...]
ROWS = Owner(Component.INPUT)
INPUT_SCALE = ".input_scale"
"""Scale of a matrix's input in NVFP4 files: only engines that round inputs to four bits need it."""


@dataclass(frozen=True)
class Name:
    """A component of a tensor's name. `alt` is tried when nothing stands under `name`, or each of
    several in turn.

    `rows` marks tables of which single rows are looked up: the host reads them in the mapped file,
    and they belong to no layer.
    """

    name: str
    alt: str | tuple[str, ...] = ()
    rows: bool = False


@dataclass(frozen=True)
class Bound(Generic[T]):
    """A model whose weight fields are leaves, the file's tensor behind each of them, and whose
    bytes it is: of a layer, of the output block, or rows of no layer.

    A tied weight is a leaf of its own: `output.weight` may lie on another device than the
    `token_embd.weight` it is read from.
    """

    weights: T
    sources: Mapping[Tensor, str]
    owners: Mapping[Tensor, Owner]


def bind(
    kind: type[T],
    tensors: Mapping[str, TensorInfo],
    arch: str,
    n_layer: int,
    others: Collection[str] = (),
) -> Bound[T]:
    """Make a `kind` from the file's tensors; what is in no list belongs to layer `n_layer`, the
    output block.

    Every missing and every unused name (but `others`) is in the one `TensorMismatch` raised.
    """
    binder = _Binder(tensors)
    weights = binder.build(kind, _At((), Owner(Component.WEIGHTS, n_layer)))
    left = set(tensors) - set(binder.sources.values()) - set(others)
    unused = sorted(name for name in left if not name.endswith(INPUT_SCALE))
    if binder.missing or unused:
        raise TensorMismatch(arch, binder.missing, unused)
    return Bound(weights, binder.sources, binder.owners)


@dataclass(frozen=True)
class _At:
    """A place among the names. `alias` is what a path that stands for another is called."""

    path: Path
    owner: Owner
    alias: Path | None = None
    in_list: bool = False

    @property
    def name(self) -> str:
        return ".".join(self.path)

    def below(self, part: str) -> "_At":
        alias = None if self.alias is None else (*self.alias, part)
        return _At((*self.path, part), self.owner, alias, self.in_list)

    def item(self, i: int) -> "_At":
        owner = self.owner if self.in_list else replace(self.owner, layer=i)
        return replace(self.below(str(i)), owner=owner, in_list=True)


class _Binder:
    def __init__(self, tensors: Mapping[str, TensorInfo]) -> None:
        self.tensors = tensors
        self._names = sorted(tensors)
        self.sources: dict[Tensor, str] = {}
        self.owners: dict[Tensor, Owner] = {}
        self.missing: list[str] = []

    def build(self, kind: Any, at: _At) -> Any:
        """A dataclass with every field bound."""
        hints, plain = _hints(kind), get_origin(kind) or kind
        return plain(**{f.name: self.field(hints[f.name], at) for f in fields(plain)})

    def field(self, hint: Any, at: _At) -> Any:
        kind, name = _marker(hint)
        if name is None:
            return self.value(kind, at)
        here = self.below(at, name)
        return self.value(kind, replace(here, owner=ROWS) if name.rows else here)

    def below(self, at: _At, name: Name) -> _At:
        """Where the marker leads: to `name`, or to the first alternative that the file has."""
        here = at.below(name.name)
        if self.exists(here):
            return here
        others = (name.alt,) if isinstance(name.alt, str) else name.alt
        there = next((a for a in map(at.below, others) if self.exists(a)), None)
        return here if there is None else replace(there, alias=here.alias or here.path)

    def value(self, kind: Any, at: _At) -> Any:
        union = _union(kind)
        options = [o for o in union if o is not NoneType]
        chosen = options[0]
        if len(union) > 1:
            there = next((o for o in options if self.complete(o, at)), None)
            if there is None and NoneType in union:
                return None
            chosen = there or chosen
        if get_origin(chosen) is list:
            (item,) = get_args(chosen)
            return [self.value(item, at.item(i)) for i in self.items(at)]
        if get_origin(chosen) is dict:
            _, item = get_args(chosen)
            return {i: self.value(item, at.item(i)) for i in self.indices(at)}
        return self.leaf(at) if chosen is Tensor else self.build(chosen, at)

    def leaf(self, at: _At) -> Tensor | None:
        info = self.tensors.get(at.name)
        if info is None:
            self.missing.append(at.name)
            return None
        tensor = leaf(".".join(at.alias or at.path), info.fmt, info.shape, Role.WEIGHT)
        self.sources[tensor] = at.name
        self.owners[tensor] = at.owner
        return tensor

    def exists(self, at: _At) -> bool:
        return at.name in self.tensors or any(True for _ in self.under(at.name + "."))

    def under(self, prefix: str) -> Iterator[str]:
        """The names that begin so."""
        for at in range(bisect_left(self._names, prefix), len(self._names)):
            if not self._names[at].startswith(prefix):
                return
            yield self._names[at]

    def complete(self, kind: type, at: _At) -> bool:
        """True if every required tensor of `kind` stands there."""
        if kind is Tensor:
            return at.name in self.tensors
        if not is_dataclass(get_origin(kind) or kind):
            return self.exists(at)
        for hint in _hints(kind).values():
            base, name = _marker(hint)
            here = self.below(at, name) if name else at
            options = _union(base)
            if NoneType not in options and not any(self.complete(o, here) for o in options):
                return False
        return True

    def items(self, at: _At) -> list[int]:
        """The indices that there are, rising; each gap between them is named as missing.

        A file may call its only block 99999999, so no range is walked.
        """
        prefix, there = at.name + ".", self.indices(at)
        for before, after in pairwise([-1, *there]):
            if after - before > 1:
                first, last = f"{prefix}{before + 1}", f"{prefix}{after - 1}"
                self.missing.append(first if first == last else f"{first} to {last}")
        return there

    def indices(self, at: _At) -> list[int]:
        """The numbers that follow, rising."""
        prefix = at.name + "."
        rests = (name[len(prefix) :] for name in self.under(prefix))
        indices = {rest.split(".")[0] for rest in rests}
        return sorted(int(i) for i in indices if i.isdecimal() and str(int(i)) == i)


@lru_cache(maxsize=256)
def _hints(kind: Any) -> Mapping[str, Any]:
    """Type hints of a dataclass, which may be generic with filled-in variables, or a subclass."""
    hints, filled = get_type_hints(get_origin(kind) or kind, include_extras=True), _filled(kind)
    return {name: _fill(hint, filled) for name, hint in hints.items()}


def _fill(hint: Any, filled: Mapping[Any, Any]) -> Any:
    """The hint with its type variables replaced."""
    if hint in filled:
        return filled[hint]
    names = () if isinstance(hint, type) else getattr(hint, "__parameters__", ())
    return hint[tuple(filled.get(name, name) for name in names)] if names else hint


def _filled(kind: Any) -> dict[Any, Any]:
    """The types that type variables stand for."""
    plain = get_origin(kind) or kind
    filled: dict[Any, Any] = {}
    for base in getattr(plain, "__orig_bases__", ()):
        if is_dataclass(get_origin(base)):
            filled |= _filled(base)
    return filled | dict(zip(getattr(plain, "__parameters__", ()), get_args(kind), strict=False))


def _marker(hint: Any) -> tuple[Any, Name | None]:
    if get_origin(hint) is Annotated:
        base, *extra = get_args(hint)
        return base, next((e for e in extra if isinstance(e, Name)), None)
    return hint, None


def _union(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
