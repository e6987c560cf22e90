"""Headers of a repository's files, fetched by ranges and kept: enough for the engine to plan with.

A header ends where its tensor descriptions end, which nobody announces: ranges double until it can
be read. Small tensors that the forward pass is built from come with it. All of it goes into an
excerpt (`engine.gguf.excerpt`), in a folder named after the content's hash.
"""

import contextlib
import hashlib
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.fetch.quants import FoundQuant
from app.fetch.search import Hub, HubError, RepoFile
from app.files import write_atomically
from engine.errors import BadFile
from engine.gguf.excerpt import pack
from engine.gguf.header import FileHeader, read_header
from engine.settings import cache_folder
from engine.units import MIB

FIRST = MIB  # bytes of the first range
MOST = 64 * MIB  # of one header
KEPT = 512 * MIB  # of all headers together
SMALL = MIB  # of a tensor that comes with its header
MOST_SMALL = 8  # such tensors
# Factors of rotary positions: the only tensors whose values a graph is built from.
BUILT_FROM = re.compile(r"rope_(freqs|factors_\w+)\.weight")


@dataclass(frozen=True)
class Heads:
    """The excerpt of a model's first part, beside those of the others, and of its projector."""

    model: Path
    projector: Path | None


def fetch_heads(hub: Hub, quant: FoundQuant) -> Heads:
    """Download the headers that planning needs of one model. Raises HubError, and BadFile for
    headers that are wrong.
    """
    model = _fetch(hub, quant.repo, quant.files)
    projector = None
    if quant.projector is not None:
        projector = _fetch(hub, quant.repo, (quant.projector,))
    return Heads(model, projector)


def heads_folder() -> Path:
    """Where headers are kept; it may be deleted."""
    return cache_folder() / "heads"


def _fetch(hub: Hub, repo: str, files: Sequence[RepoFile]) -> Path:
    """The excerpts of a model's parts, in a folder of their own; the first one's path."""
    known = "\0".join(f"{file.sha256 or repo}/{file.path}/{file.size}" for file in files)
    folder = heads_folder() / hashlib.sha256(known.encode()).hexdigest()
    paths = [folder / re.sub(r"[^\w.-]", "_", f.path.rpartition("/")[2]) for f in files]
    fresh = all(file.sha256 for file in files)  # else its content may have changed
    for file, path in zip(files, paths, strict=True):
        if not (fresh and path.exists()):
            _write(path, _excerpt(hub, repo, file))
    with contextlib.suppress(OSError):
        folder.touch()
        _forget_oldest()
    return paths[0]


def _write(path: Path, content: bytes) -> None:
    try:
        write_atomically(path, content)
    except OSError as error:
        reason = error.strerror or str(error)
        raise HubError("failed", f"{path.parent} cannot be written: {reason}") from None


def _excerpt(hub: Hub, repo: str, file: RepoFile) -> bytes:
    """A file's header with its small tensors. Raises HubError, BadFile."""
    if not file.size:
        raise BadFile(f"{repo}/{file.path}", "the file is empty")
    head, content = b"", None
    while content is None:
        length = min(max(FIRST, len(head)), file.size - len(head), MOST - len(head))
        head += _range(hub, repo, file, len(head), length)
        content = _parsed(repo, file, head)
    parts = [(0, head)]
    wanted = [tensor for tensor in content.tensors if BUILT_FROM.fullmatch(tensor.name)]
    for tensor in wanted[:MOST_SMALL]:
        inside = tensor.offset + tensor.nbytes <= len(head)
        if tensor.nbytes <= SMALL and not inside:
            parts.append((tensor.offset, _range(hub, repo, file, tensor.offset, tensor.nbytes)))
    return pack(file.size, parts)


def _parsed(repo: str, file: RepoFile, head: bytes) -> FileHeader | None:
    """The header, or None where more bytes are needed; BadFile where they would not help."""
    try:
        return read_header(f"{repo}/{file.path}", memoryview(head), size=file.size)
    except BadFile as error:
        if not error.cut_off or len(head) >= min(file.size, MOST):
            raise
        return None


def _range(hub: Hub, repo: str, file: RepoFile, start: int, length: int) -> bytes:
    content, size = hub.read_range(repo, file.path, start, length)
    if size != file.size:
        problem = f"{file.path} has {size} bytes, {file.size} expected"
        raise HubError("failed", f"{hub.host}: {problem}; search again")
    if len(content) != length:
        problem = f"{file.path}: {len(content)} bytes received, {length} requested"
        raise HubError("failed", f"{hub.host}: {problem}; try again")
    return content


def _forget_oldest() -> None:
    """Delete the headers that were not used for longest, beyond KEPT bytes."""
    left = KEPT
    folders = sorted(heads_folder().iterdir(), key=lambda f: f.stat().st_mtime, reverse=True)
    for folder in folders:
        left -= sum(path.stat().st_size for path in folder.iterdir())
        if left < 0:
            shutil.rmtree(folder, ignore_errors=True)
