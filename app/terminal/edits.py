"""The options that edit a model's results: --edit and --control-vector."""

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import msgspec

from engine.errors import BadSetting
from engine.protocol import Edit, EditOp

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FEATURE = re.compile(
    r"(?P<site>[A-Za-z_]\w*?-\d{1,6})?(?:@(?P<positions>[\w:-]+))?"
    r"=feature:(?P<sae>.+)#(?P<index>\d{1,9}):(?P<action>[^#:]+)",
    re.ASCII,
)
FORM = "SITE-LAYERS[.hN|.eN|.cA:B][@POSITIONS]=OP[:VALUE[:FILE[#TENSOR]]]"
_FORM = re.compile(
    r"(?P<site>[A-Za-z_]\w*?)(?:-(?P<layers>\d{1,6}(?:[:,]\d{1,6})*))?(?:#(?P<occurrence>\d{1,4}))?"
    r"(?:\.(?P<part>[hec])(?P<number>\d{1,9}(?::\d{1,9})?))?(?:@(?P<positions>[\w:-]+))?"
    r"=(?P<op>[a-z]+)(?::(?P<value>[^:]*)(?::(?P<file>.+))?)?",
    re.ASCII,
)
_RANGE = re.compile(r"(\d{1,6}):(\d{1,6})", re.ASCII)
MOST_VALUES = 1 << 26
"""Bytes of a file of vectors."""


def add_edit_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that edits_of() reads."""
    group = parser.add_argument_group("edits of results")
    group.add_argument(
        "--edit",
        action="append",
        default=[],
        metavar="EDIT",
        help=(
            f"{FORM}: change a result while the model computes; SITE is residual, attention,"
            " feed_forward, heads or a result's name, OP set, add, scale, project, hold or swap;"
            " ranges end before B; SITE-LAYER=feature:SAE_DIR#INDEX:+40 (=40, off) changes an"
            " autoencoder's feature; repeatable"
        ),
    )
    group.add_argument(
        "--control-vector",
        action="append",
        default=[],
        metavar="FILE[:STRENGTH]",
        help="add the directions of a control vector (GGUF) to what leaves each layer; repeatable",
    )
    group.add_argument(
        "--control-vector-layers", metavar="A:B", help="only layers A to before B (all of the file)"
    )
    group.add_argument(
        "--random",
        type=int,
        metavar="SEED",
        help="as a control: random vectors of equal length in place of the file's directions",
    )


def edits_of(args: argparse.Namespace) -> list[Edit]:
    """The edits that the options name. Raises BadSetting, BadFile."""
    found = [edit for text in args.edit for edit in parsed(text)]
    if args.control_vector:
        from engine.gguf.control_vector import random_like, read_directions, steering

        layers = _layers_option(args.control_vector_layers)
        for text in args.control_vector:
            name, strength = _with_strength(text)
            directions = read_directions(Path(name).expanduser())
            if args.random is not None:
                directions = random_like(directions, args.random)
            found += steering(directions, strength, layers)
    elif args.random is not None or args.control_vector_layers is not None:
        needed = "a file, for --random and --control-vector-layers"
        raise BadSetting("--control-vector", None, needed)
    return found


def parsed(text: str) -> Iterator[Edit]:
    """The edits of one --edit: of a file with a direction for each layer, an edit for each. Raises
    BadSetting, BadFile.
    """
    if (feature := _FEATURE.fullmatch(text)) is not None:
        yield _feature(feature)
        return
    parts = _FORM.fullmatch(text)
    if parts is None:
        raise BadSetting("--edit", text, FORM)
    value, ops = parts["value"], get_args(EditOp)
    if parts["op"] not in ops or parts["op"] == "feature":
        expected = f"one of {', '.join(ops)}; a feature as feature:SAE_DIR#INDEX:+40, =40 or off"
        raise BadSetting("--edit", parts["op"], expected)
    op = cast(EditOp, parts["op"])
    where: dict[str, Any] = {"positions": parts["positions"] or "all"}
    if parts["occurrence"]:
        where["occurrence"] = int(parts["occurrence"])
    try:
        where["value"] = float(value) if value else 1.0
    except ValueError:
        raise BadSetting("--edit", value, "a number after the operation") from None
    numbers = [int(n) for n in (parts["number"] or "").split(":") if n]
    if parts["part"] == "c":
        whole = len(numbers) == 2
        where["channels"] = (numbers[0], numbers[1] if whole else numbers[0] + 1)
    elif parts["part"]:
        if len(numbers) > 1:
            raise BadSetting("--edit", parts["number"], "one head or expert")
        where["head" if parts["part"] == "h" else "expert"] = numbers[0]
    layers = _layers(parts["layers"] or "")
    if parts["file"] is None:
        yield Edit(parts["site"], layers, op, **where)
        return
    for some, vector in _vectors(parts["file"], layers):
        yield Edit(parts["site"], some, op, vector=vector.astype("<f4").tobytes(), **where)


def _feature(parts: re.Match[str]) -> Edit:
    """The edit that adds to a feature (`+40`), holds it (`=40`) or switches it off (`off`); where
    no result is named, at the one that the autoencoder reads. Raises BadSetting, BadFile.
    """
    from engine.arrays.autoencoder import open_autoencoder

    sae = open_autoencoder(Path(parts["sae"]), parts["site"] or "")
    index, action = int(parts["index"]), parts["action"]
    if index >= sae.n:
        raise BadSetting("--edit", index, f"a feature from 0 to {sae.n - 1}")
    hold = action == "off" or action.startswith("=")
    try:
        value = 0.0 if action == "off" else float(action.removeprefix("="))
    except ValueError:
        raise BadSetting("--edit", action, "+40 to add, =40 to hold, or off") from None
    layers = [] if sae.writes.layer < 0 else [sae.writes.layer]
    positions = parts["positions"] or "all"
    if not hold:
        return Edit.of("add", sae.writes.site, layers, value, sae.w_dec[index], positions=positions)
    u, w, bias, threshold = sae.held(index)
    edit = Edit.of("feature", sae.writes.site, layers, value, u, w, positions=positions)
    return msgspec.structs.replace(edit, bias=bias, threshold=threshold)


def _layers(text: str) -> list[int]:
    """Layers of `3`, `3,5` or `3:6`, which ends before 6."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        begin, _, end = part.partition(":")
        if ":" in end or (end and int(end) <= int(begin)):
            raise BadSetting("--edit", text, "layers as 3, 3,5 or 3:6, which ends before 6")
        found += range(int(begin), int(end)) if end else [int(begin)]
    return found


def _layers_option(text: str | None) -> Sequence[int] | None:
    if text is None:
        return None
    parts = _RANGE.fullmatch(text)
    if parts is None or int(parts[1]) >= int(parts[2]):
        raise BadSetting("--control-vector-layers", text, "A:B, layers from A to before B")
    return range(int(parts[1]), int(parts[2]))


def _with_strength(text: str) -> tuple[str, float]:
    """A path, and the number behind its last colon if that is one."""
    name, colon, number = text.rpartition(":")
    try:
        return (name, float(number)) if colon and name else (text, 1.0)
    except ValueError:
        return text, 1.0


def _vectors(text: str, layers: list[int]) -> Iterator[tuple[list[int], "NDArray[np.float32]"]]:
    """Layers with the vector that a file has for them, which is FILE.gguf, FILE.gguf#TENSOR,
    FILE.npz#NAME or FILE.npy.
    """
    import numpy as np

    name, _, tensor = text.partition("#")
    path = Path(name).expanduser()
    if path.suffix == ".gguf" and not tensor:
        from engine.gguf.control_vector import read_directions

        directions = read_directions(path)
        missing = [layer for layer in layers if layer not in directions]
        if missing or not layers:
            held = ", ".join(map(str, directions))
            raise BadSetting("--edit", str(path), f"a direction for each layer; it has {held}")
        for layer in layers:
            yield [layer], directions[layer]
        return
    if path.suffix == ".gguf":
        from engine.gguf.reader import open_gguf

        with open_gguf(path) as file:
            if tensor not in file.tensors:
                raise BadSetting("--edit", tensor, f"a tensor of {path}")
            yield layers, np.array(file.array(tensor)).reshape(-1)
        return
    try:
        if path.stat().st_size > MOST_VALUES:
            raise BadSetting("--edit", str(path), f"a file of at most {MOST_VALUES >> 20} MiB")
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.lib.npyio.NpzFile):
            with loaded:
                if tensor not in loaded.files:
                    raise BadSetting("--edit", tensor, f"one of {', '.join(loaded.files[:8])}")
                loaded = loaded[tensor]
        yield layers, np.asarray(loaded, np.float32).reshape(-1)
    except (OSError, ValueError, EOFError) as error:
        expected = f"a vector in a file of GGUF, NPY or NPZ ({error})"
        raise BadSetting("--edit", str(path), expected) from None
