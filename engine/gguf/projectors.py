"""Files that make a language model see (mmproj): what their headers say, and where they lie."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path

from engine.errors import CutawayError
from engine.gguf.reader import GGUFFile, open_gguf
from engine.gguf.splits import architecture_of

ARCHITECTURE = "clip"
"""`general.architecture` of every projector's file."""
# The last matrix [in, out] of a projector, by name.
LAST = (
    *("mm.model.fc.weight", "mm.model.mlp.3.weight", "mm.4.weight", "mm.2.weight"),
    *("resampler.proj.weight", "mm.input_projection.weight", "mm.1.weight", "mm.0.weight"),
)
TURNED, UPRIGHT = "mm.input_projection.weight", "gemma4"
"""The one that is [out, in], but in files whose type of projector begins so."""
BEST = ("F16", "BF16", "F32", "Q8_0")
"""Which of files that fit alike to take: small where as exact, then larger, then rough."""
HINT = "mmproj"
TYPE = re.compile(r"[-._](?:ud-)?(?:i?q\d\w*|bf16|f16|f32)$")
MOST_FILES = 64  # of a folder whose headers are read
MOST_MANIFESTS = 4096
MOST_MANIFEST = 1 << 20  # bytes of one
OLLAMA_PROJECTOR = "application/vnd.ollama.image.projector"


def is_projector(file: GGUFFile) -> bool:
    """True if a file holds a projector alone; its name is only a hint."""
    return file.metadata.get("general.architecture", str, None) == ARCHITECTURE


def width(file: GGUFFile) -> int | None:
    """How long a projector's rows of embeddings are; None where it makes none for pictures.

    By its last matrix: `clip.vision.projection_dim` of old files is the tower's own.
    """
    if not file.metadata.get("clip.has_vision_encoder", bool, True):
        return None
    kinds = (file.metadata.get(f"clip.{key}projector_type", str, "") for key in ("vision.", ""))
    is_upright = any(kind.startswith(UPRIGHT) for kind in kinds)
    for name in LAST:
        if name in file.tensors:
            return file.tensors[name].shape[0 if name == TURNED and not is_upright else 1]
    return file.metadata.get("clip.vision.projection_dim", int, None)


def quality(quantization: str | None) -> int:
    """A place in the order of what to take; the first is best."""
    return BEST.index(quantization) if quantization in BEST else len(BEST)


def alike(model: str, projector: str) -> int:
    """How many words the names of two files share, quantisations aside."""
    return len(set(_words(model)) & set(_words(projector)))


def akin(model: str, projector: str, others: Iterable[str]) -> bool:
    """True if two files of one folder may go together, by their names and those of its models.

    Where models of other names lie there too, the projector must share the model's first word.
    """
    first = _words(model)[0]
    return all(_words(other)[0] == first for other in others) or first in _words(projector)


def _words(stem: str) -> list[str]:
    plain = TYPE.sub("", stem.lower())
    return [word for word in re.split(r"[^a-z0-9]+", plain) if word] or [""]


def beside(path: str | Path) -> list[Path]:
    """Projectors that may belong to a model's file, the best first; none of them is checked.

    They lie in its folder (as in LM Studio's), in other revisions of its repository in the Hugging
    Face cache, or in the same manifest of Ollama.
    """
    model = Path(path).absolute()
    places = [_of_folder(model), _of_repository(model), _of_manifest(model)]
    if model.resolve().parent != model.parent:  # a link to a file elsewhere
        places.append(_of_folder(model.resolve()))
    return list(dict.fromkeys(chain(*places)))


def _of_folder(model: Path) -> list[Path]:
    try:
        files = [p for p in model.parent.iterdir() if p.suffix.lower() == ".gguf" and p != model]
    except OSError:
        return []
    hinted = [p for p in files if HINT in p.name.lower()]
    read = files if len(files) <= MOST_FILES else hinted
    projectors = _projectors(read)
    others = [p.stem for p in files if p not in projectors and p not in hinted]
    fitting = {p: kind for p, kind in projectors.items() if akin(model.stem, p.stem, others)}
    return _best_first(model, fitting)


def _of_repository(model: Path) -> list[Path]:
    """Return the files of `models--org--repo/snapshots`, also if the model is in a folder below."""
    for parent in model.parents:
        if parent.name == "snapshots" and parent.parent.name.startswith("models--"):
            with suppress(OSError):
                files = [p for p in parent.rglob("*.gguf") if HINT in p.name.lower()]
                return _best_first(model, _projectors(files))
    return []


def _of_manifest(model: Path) -> list[Path]:
    """The projector's layer of a manifest that names the model's blob."""
    blobs = model.parent
    if blobs.name != "blobs" or not model.name.startswith("sha256-"):
        return []
    digest = model.name.replace("-", ":", 1)
    manifests = sorted((blobs.parent / "manifests").glob("*/*/*/*"))
    for manifest in manifests[:MOST_MANIFESTS]:
        if not os.path.isfile(manifest):  # opening a pipe would wait for its other end
            continue
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            with manifest.open("rb") as file:
                layers = json.loads(file.read(MOST_MANIFEST))["layers"]
            kinds = {str(layer["digest"]): str(layer["mediaType"]) for layer in layers}
            named = [d for d, kind in kinds.items() if kind == OLLAMA_PROJECTOR and "/" not in d]
            found = [p for d in named if (p := blobs / d.replace(":", "-")).is_file()]
            if digest in kinds and found:
                return found
    return []


def _projectors(files: Iterable[Path]) -> dict[Path, str]:
    """Return the projectors among the files, each with the type of most of its bytes."""
    found = {}
    for path in files:
        with suppress(CutawayError, OSError):
            if architecture_of(path) == ARCHITECTURE:  # a model's header takes long to read whole
                found[path] = _mostly(path)
    return found


def _mostly(path: Path) -> str:
    """The type of most of a file's bytes."""
    with open_gguf(path) as file:
        sizes: Counter[str] = Counter()
        for tensor in file.tensors.values():
            sizes[tensor.fmt.name] += tensor.nbytes
    return max(sizes, key=lambda fmt: sizes[fmt], default="")


def _best_first(model: Path, found: Mapping[Path, str]) -> list[Path]:
    def rank(path: Path) -> tuple[int, int, str]:
        return -alike(model.stem, path.stem), quality(found[path]), str(path)

    return sorted(found, key=rank)
