"""Facts from the headers of models' files, stored in the cache folder."""

import contextlib
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from app.files import problem
from engine.errors import BadFile, CutawayError
from engine.kept import UNREADABLE, read_sealed, write_sealed
from engine.settings import cache_folder

MAGIC = b"CutawayHeaders6\n"
Stamp = list[tuple[int, int, int]]


class Header(msgspec.Struct, frozen=True, array_like=True):
    """The header of a model's file: the quantisation as the file names it, or else that of most
    bytes; `width` is what both sides of a projector have: its rows, or the language model's
    embedding (None of one for sound alone); `n_ctx` the tokens of context it was trained for;
    `ranks`: it is a reranker or a classifier, which gives no embeddings; `adapts` is the model that
    an adapter is for, as far as it says, None for what is none. Where it cannot be read `problem`
    says why, and the others are None.
    """

    architecture: str | None = None
    quantization: str | None = None
    width: int | None = None
    problem: str | None = None
    n_ctx: int | None = None
    ranks: bool = False
    adapts: str | None = None


_Kept = dict[bytes, tuple[Stamp, Header]]


class Headers:
    """Headers by their files' paths, valid while size, time and inode of each stay as they were."""

    def __init__(self) -> None:
        self._path = cache_folder() / "headers.sealed"
        self._kept: _Kept = {}
        self._used: _Kept = {}
        with contextlib.suppress(OSError, *UNREADABLE):
            self._kept = msgspec.msgpack.decode(read_sealed(self._path, MAGIC), type=_Kept)

    def of(self, paths: Sequence[Path], stats: Sequence[os.stat_result]) -> Header:
        """The header of a model's splits, from its files only where they have changed."""
        key = os.fsencode(paths[0])
        stamp = [(s.st_size, s.st_mtime_ns, s.st_ino) for s in stats]
        if key not in self._kept or self._kept[key][0] != stamp:
            try:
                self._kept[key] = stamp, read_header(paths[0])
            except OSError as error:  # of the disk or of permissions: another time it may be read
                return Header(problem=problem(error))
        self._used[key] = self._kept[key]
        return self._kept[key][1]

    def save(self, all_listed: bool) -> None:
        """Keep the answers; with `all_listed` those of other files are gone."""
        headers = self._used if all_listed else self._kept
        with contextlib.suppress(OSError):
            write_sealed(self._path, MAGIC, msgspec.msgpack.encode(headers))


def read_header(path: Path) -> Header:
    """Read a file's header. Raises OSError."""
    from gguf import LlamaFileType

    from engine.gguf import adapters, open_gguf, projectors
    from engine.gguf.general import is_reranker

    try:
        with open_gguf(path) as file:
            sizes: Counter[str] = Counter()
            for tensor in file.tensors.values():
                sizes[tensor.fmt.name] += tensor.nbytes
            number = file.metadata.get("general.file_type", int, -1)
            called = {int(kind): kind.name for kind in LlamaFileType if kind.name != "GUESSED"}
            name = called.get(number, max(sizes, key=lambda fmt: sizes[fmt], default="none"))
            architecture = file.metadata.architecture
            if projectors.is_projector(file):
                width = projectors.width(file)
            else:
                width = file.metadata.get(f"{architecture}.embedding_length", int, None)
            n_ctx = file.metadata.get(f"{architecture}.context_length", int, None)
            called_so = re.sub("^(ALL|MOSTLY)_", "", name)
            adapts = adapters.base_name(file) if adapters.is_adapter(file) else None
            ranks = is_reranker(file)
            return Header(architecture, called_so, width, None, n_ctx, ranks, adapts)
    except CutawayError as error:
        # A file's name may hold bytes that are no UTF-8, which could not be kept.
        return Header(problem=str(error).encode("utf-8", "backslashreplace").decode())


def check_model(path: Path) -> None:
    """Check by its header that a file is whole and a language model. Raises BadFile."""
    try:
        header = read_header(path)
    except OSError as error:
        raise BadFile(path, error.strerror or "cannot be read") from error
    if header.problem is not None:
        text = header.problem.removeprefix(f"{path}: ")
        raise BadFile(path, text)
    if header.architecture == "clip":
        raise BadFile(path, "it is an image projector; open the language model it belongs to")
