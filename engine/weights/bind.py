"""Names in a GGUF file to fields of a model, declared by annotations and strict both ways.

A field `q: Annotated[Linear, Name("attn_q")]` adds `attn_q` to the path; a field without a marker
groups and adds nothing; `list[Block]` adds an index; `X | None` is optional; a `Tensor` field ends
the path. `Meta` does the same for metadata keys, which carry the architecture as prefix.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from engine.errors import TensorMismatch
from engine.gguf import GGUFFile, TensorInfo
from engine.graph.tensor import Role, Tensor, leaf

T = TypeVar("T")
Path = tuple[str, ...]
NO_ALIASES: Mapping[str, str] = {}


@dataclass(frozen=True)
class Name:
    """A component of a tensor's name. `alt` is tried when nothing stands under `name`."""

    name: str
    alt: str | None = None


@dataclass(frozen=True)
class Meta:
    """A metadata key, without the architecture."""

    key: str


def read_params(kind: type[T], file: GGUFFile) -> T:
    """The params dataclass filled from metadata; defaults where a key is absent.

    Raises `BadFile` for a missing or mistyped key.
    """
    values: dict[str, Any] = {}
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):  # type: ignore[arg-type]
        base, meta = _marker(hints[field.name], Meta)
        if meta is None:
            continue
        if meta.key in file.metadata or field.default is MISSING:
            values[field.name] = file.metadata.get(meta.key, _plain(base))
    return kind(**values)


@dataclass(frozen=True)
class Bound(Generic[T]):
    """A model whose weight fields are leaves, and the file's tensor behind each of them.

    A tied weight is a leaf of its own: `output.weight` may lie on another device than the
    `token_embd.weight` it is read from.
    """

    model: T
    sources: Mapping[Tensor, str]


def bind(
    kind: type[T], tensors: Mapping[str, TensorInfo], arch: str, ignored: Sequence[str] = ()
) -> Bound[T]:
    """Make a `kind` from the file's tensors.

    Every missing and every unused name (but the `ignored`) is in the one `TensorMismatch` raised.
    """
    binder = _Binder(tensors)
    model = binder.build(kind, (), {})
    unused = sorted(set(tensors) - set(binder.sources.values()) - set(ignored))
    if binder.missing or unused:
        raise TensorMismatch(arch, binder.missing, unused)
    return Bound(model, binder.sources)


class _Binder:
    def __init__(self, tensors: Mapping[str, TensorInfo]) -> None:
        self.tensors = tensors
        self.sources: dict[Tensor, str] = {}
        self.missing: list[str] = []

    def build(self, kind: Any, path: Path, aliases: Mapping[str, str]) -> Any:
        hints = get_type_hints(kind, include_extras=True)
        values = {}
        for field in fields(kind):
            base, name = _marker(hints[field.name], Name)
            values[field.name] = self.value(base, path, name, aliases)
        return kind(**values)

    def value(
        self, kind: Any, path: Path, name: Name | None, aliases: Mapping[str, str] = NO_ALIASES
    ) -> Any:
        here = (*path, name.name) if name else path
        if name and name.alt and not self.exists(here):
            alias = ".".join(here)
            here = (*path, name.alt)
            aliases = {".".join(here): alias}
        options = [o for o in _union(kind) if o is not NoneType]
        if NoneType in _union(kind) and not any(self.complete(o, here) for o in options):
            return None
        chosen = next((o for o in options if self.complete(o, here)), options[0])
        if get_origin(chosen) is list:
            item = get_args(chosen)[0]
            return [self.value(item, (*here, str(i)), None) for i in self.items(here)]
        if chosen is Tensor:
            return self.leaf(here, aliases)
        return self.build(chosen, here, aliases)

    def leaf(self, path: Path, aliases: Mapping[str, str]) -> Tensor | None:
        source = ".".join(path)
        info = self.tensors.get(source)
        if info is None:
            self.missing.append(source)
            return None
        prefix, last = ".".join(path[:-1]), path[-1]
        name = f"{aliases[prefix]}.{last}" if prefix in aliases else source
        made = leaf(name, info.fmt, info.shape, Role.WEIGHT)
        self.sources[made] = source
        return made

    def exists(self, path: Path) -> bool:
        prefix = ".".join(path)
        return any(n == prefix or n.startswith(prefix + ".") for n in self.tensors)

    def complete(self, kind: Any, path: Path) -> bool:
        """Whether every required tensor of `kind` stands under `path`."""
        if kind is Tensor:
            return ".".join(path) in self.tensors
        if not is_dataclass(kind):
            return self.exists(path)
        hints = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            base, name = _marker(hints[field.name], Name)
            options = _union(base)
            if NoneType in options:
                continue
            here = (*path, name.name) if name else path
            if not any(self.complete(o, here) for o in options):
                return False
        return True

    def items(self, path: Path) -> Sequence[int]:
        """0 up to the highest index under `path`: a gap shows up as missing tensors."""
        prefix = ".".join(path) + "."
        found = [
            int(index)
            for n in self.tensors
            if n.startswith(prefix) and (index := n[len(prefix) :].split(".")[0]).isdecimal()
        ]
        return range(max(found, default=-1) + 1)


def _marker(hint: Any, kind: type[T]) -> tuple[Any, T | None]:
    if get_origin(hint) is Annotated:
        base, *extra = get_args(hint)
        return base, next((e for e in extra if isinstance(e, kind)), None)
    return hint, None


def _union(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _plain(kind: Any) -> type:
    chosen = next(o for o in _union(kind) if o is not NoneType)
    assert isinstance(chosen, type)
    return chosen
