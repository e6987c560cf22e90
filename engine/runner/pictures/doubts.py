"""What makes doubtful that a projector is the open model's, or that it sees well."""

import re
from collections.abc import Iterable, Iterator

from engine.gguf import GGUFFile
from engine.gguf.formats import Q8_0, Format
from engine.gguf.metadata import Metadata
from engine.graph.tensor import Tensor

MOST_BASES = 8  # that are looked at
LONGEST = 60  # characters of a name that are told


def doubts(model: GGUFFile, tower: GGUFFile, weights: Iterable[Tensor]) -> tuple[str, ...]:
    """A line for each, with the next step. `weights` are the tower's; its file may be the model's.

    Another model's projector of the same kind and width cannot be told by its tensors, and what is
    then said of pictures is wrong without a sign of it.
    """
    return (*_stranger(model, tower), *_coarse(tower, weights))


def _stranger(model: GGUFFile, tower: GGUFFile) -> Iterator[str]:
    """Where nothing that the two files call themselves or come from is the same.

    Old converters give a projector the name of its encoder alone, which says nothing.
    """
    own, its = _names(model.metadata), _names(tower.metadata)
    says_more = any(key != "general.name" for key in its)
    if own and says_more and not {*map(_plain, own.values())} & {*map(_plain, its.values())}:
        names = f"{_told(its)}, not from {_told(own)}"
        step = "if answers about pictures are wrong, choose another vision file (mmproj)"
        yield f"{tower.paths[0].name} says that it comes from {names}: {step}"


def _names(metadata: Metadata) -> dict[str, str]:
    """What a file calls itself and what it was made of, by key; the most telling first."""
    keys = [
        f"general.base_model.{i}.{key}" for i in range(MOST_BASES) for key in ("name", "repo_url")
    ]
    found = {}
    for key in (*keys, "general.basename", "general.name"):
        value = metadata[key].value if key in metadata else None
        if isinstance(value, str) and _plain(value):
            found[key] = value.rstrip("/").rpartition("/")[2]
    return found


def _plain(name: str) -> str:
    """Letters and digits, for comparing."""
    return re.sub(r"[\W_]+", "", name.rstrip("/").rpartition("/")[2].casefold())


def _told(names: dict[str, str]) -> str:
    return " ".join(next(iter(names.values())).split())[:LONGEST]


def _coarse(tower: GGUFFile, weights: Iterable[Tensor]) -> Iterator[str]:
    coarse = {t.fmt for t in weights if _bits(t.fmt) < _bits(Q8_0)}
    if coarse:
        names = ", ".join(sorted(fmt.name for fmt in coarse))
        step = "small things may be missed; one of F16 or Q8_0 sees better"
        yield f"{tower.paths[0].name} has weights in {names}: {step}"


def _bits(fmt: Format) -> float:
    """Per weight."""
    return 8 * fmt.bytes / fmt.block
