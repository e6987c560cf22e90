"""Parser of a GGUF file's name: split number, quantisation, projector; and `org/repo[:quant]`."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

# The naming of split files and of quantisations is the field's habit; the file's header decides.
SPLIT = re.compile(r"^(?P<stem>.+)-(?P<index>\d{5})-of-(?P<count>\d{5})\.gguf$", re.IGNORECASE)
QUANT = re.compile(
    r"(?:^|[-._])((?:UD-)?(?:I?Q[1-8]|TQ[12]|MXFP4|NVFP4|BF16|F16|F32)(?:_[0-9A-Z]+)*)(?=[-.]|$)",
    re.IGNORECASE,
)
REPOSITORY = re.compile(
    r"^(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?::(?P<quant>[\w.-]+))?$", re.ASCII
)


@dataclass(frozen=True)
class Group:
    """One model among a folder's files: a single file, or the splits of one, in order."""

    stem: str
    files: tuple[str, ...]
    count: int

    @property
    def missing(self) -> int:
        """How many splits are not there."""
        return self.count - len(self.files)


def stem(file_name: str) -> str:
    """The file's name without `.gguf` and without its split number."""
    split = SPLIT.match(file_name)
    return split["stem"] if split else re.sub(r"\.gguf$", "", file_name, flags=re.IGNORECASE)


def quant(file_name: str) -> str | None:
    """The last quantisation named, in capitals: `model.Q4_K_M.gguf` gives Q4_K_M."""
    found = QUANT.findall(stem(file_name))
    return found[-1].upper() if found else None


def title(file_name: str) -> str:
    """How a model is called: `model.Q4_K_M.gguf` is "model · Q4_K_M"."""
    name, kind = stem(file_name), quant(file_name)
    if kind is None or not name.upper().endswith(kind):
        return name
    return f"{name[: -len(kind)].rstrip('-._')} · {kind}"


def is_projector(file_name: str) -> bool:
    """Return whether the file holds an image encoder for a language model."""
    return "mmproj" in PurePath(file_name).name.lower()


def is_gguf(file_name: str) -> bool:
    """Return whether the name ends in .gguf."""
    return file_name.lower().endswith(".gguf")


def groups(files: Iterable[str]) -> list[Group]:
    """GGUF files (paths with `/`) as models, splits of one folder and stem together, by name."""
    single: list[Group] = []
    splits: dict[tuple[str, int], list[str]] = {}
    for file in sorted(filter(is_gguf, files)):
        split = SPLIT.match(file)
        if split:
            splits.setdefault((split["stem"], int(split["count"])), []).append(file)
        else:
            single.append(Group(stem(file), (file,), 1))
    single += [Group(name, tuple(f), count) for (name, count), f in splits.items()]
    return sorted(single, key=lambda group: group.stem)


def choose(found: list[Group], wanted: str | None) -> list[Group]:
    """The models that `wanted` leaves: a quantisation, or a file's stem. None: not projectors."""
    models = [group for group in found if not is_projector(group.stem)]
    if wanted is None:
        return models
    named = [group for group in found if label(group).lower() == wanted.lower()]
    return named or [group for group in models if quant(group.files[0]) == wanted.upper()]


def label(group: Group) -> str:
    """The file's stem without its folder."""
    return group.stem.rpartition("/")[2]


def labels(found: list[Group]) -> list[str]:
    """Return a label for each of `found`, after `org/repo:`; the quantisation if that is enough."""
    quants = [None if is_projector(g.stem) else quant(g.files[0]) for g in found]
    counts = Counter(quants)
    return [
        q if q and counts[q] == 1 else label(group) for q, group in zip(quants, found, strict=True)
    ]
