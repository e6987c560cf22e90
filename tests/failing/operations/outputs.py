"""Files that a person names: `cutaway dump --out`, and what else is written by `output`."""

import contextlib
import io
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np

from app.cli import main
from app.files import output
from engine.errors import CutawayError
from tests.failing.sweep import Operation, refused
from tests.goldens.tiny import write_tiny

OLD = b"what was there before " * 10_000


def _setup(root: Path) -> None:
    root.mkdir()
    write_tiny(root / "tiny.gguf", "llama")
    for name in ("linked.npz", "vectors.npy"):
        (root / name).write_bytes(OLD)
    (root / "out.npz").symlink_to("linked.npz")


def _twice(do: Callable[[Path], None], root: Path) -> None:
    try:
        do(root)
    except CutawayError as error:
        refused(error)
        do(root)


def _dump(root: Path) -> None:
    """The command as a person types it: what fails is one sentence."""
    said = io.StringIO()
    names = ["--tensors", "token_embd.*", "--out", str(root / "out.npz")]
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        status = main(["dump", str(root / "tiny.gguf"), *names])
    text = said.getvalue()
    assert "unexpected" not in text, text
    assert "Traceback" not in text, text
    if status:
        assert text.startswith("cutaway: error: "), text
        raise CutawayError(text)


def _vectors(root: Path) -> None:
    """As `embed --out` and `perplexity --out` write."""
    with output(root / "vectors.npy") as file:
        np.save(file, np.arange(100_000, dtype=np.float32))


def _state(root: Path) -> dict[str, str]:
    outs = [root / "out.npz", root / "linked.npz", root / "vectors.npy"]
    kinds = {"link": str((root / "out.npz").is_symlink())}
    for path in outs:
        content = path.read_bytes()
        if content != OLD:  # then it is whole, as NumPy reads it
            np.load(io.BytesIO(content))
        kinds[path.name] = "old" if content == OLD else _digest(path, content)
    return kinds


def _digest(path: Path, content: bytes) -> str:
    if path.suffix == ".npy":
        return sha256(content).hexdigest()
    loaded = np.load(io.BytesIO(content))  # an archive holds the time at which it was made
    return sha256(b"".join(loaded[name].tobytes() for name in sorted(loaded))).hexdigest()


OPERATIONS = (
    Operation("dump", _setup, partial(_twice, _dump), _state),
    Operation("output", _setup, partial(_twice, _vectors), _state),
)
