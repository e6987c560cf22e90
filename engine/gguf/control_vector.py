"""Control vectors: directions by layer in a GGUF file, as llama.cpp's tools write and read them.

A file has tensors `direction.N`, float32 [E], N from 1. `direction.N` is added, times a strength,
to what leaves layer N, counted from 0: layer 0 cannot be steered. Keys of a file are not needed to
use it (llama.cpp: common/common.cpp, common_control_vector_load_one).
"""

import os
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from engine.errors import BadFile, BadSetting
from engine.gguf.formats import F32
from engine.gguf.reader import open_gguf
from engine.protocol import Edit

ARCHITECTURE = "controlvector"
_NAME = re.compile(r"direction\.(\d{1,6})", re.ASCII)

Directions = Mapping[int, NDArray[np.float32]]
"""Directions f32 [E] by layer."""


def read_directions(path: str | PathLike[str]) -> Directions:
    """The directions of a file, by layer. Raises `BadFile`."""
    found: dict[int, NDArray[np.float32]] = {}
    with open_gguf(path) as file:
        for name, info in file.tensors.items():
            parts = _NAME.fullmatch(name)
            if parts is None:
                raise BadFile(path, f"{name} is not a tensor of a control vector, direction.N")
            if int(parts[1]) == 0:
                raise BadFile(path, "direction.0: layer 0 cannot be steered")
            if info.fmt is not F32 or info.n_dims != 1:
                raise BadFile(path, f"{name} is not one row of F32")
            values = file.array(name)
            if not np.isfinite(values).all():
                raise BadFile(path, f"{name} holds a number that is not finite")
            found[int(parts[1])] = values.copy()
    if not found:
        raise BadFile(path, "it holds no direction.N")
    lengths = sorted({len(one) for one in found.values()})
    if len(lengths) > 1:
        raise BadFile(path, f"directions of different lengths: {lengths[0]} and {lengths[-1]}")
    return dict(sorted(found.items()))


def write_directions(
    path: Path, directions: Directions, model: str, facts: Mapping[str, float] | None = None
) -> None:
    """Write a file that llama.cpp reads, too; `model` is the architecture of the model, `facts`
    become keys `cutaway.*`. It takes the place of an older one once it is whole. Raises `OSError`.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        _write(part, directions, model, facts or {})
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _write(path: Path, directions: Directions, model: str, facts: Mapping[str, float]) -> None:
    writer = gguf.GGUFWriter(path, ARCHITECTURE)
    writer.add_string(f"{ARCHITECTURE}.model_hint", model)
    writer.add_int32(f"{ARCHITECTURE}.layer_count", len(directions))
    for key, value in facts.items():
        writer.add_float32(f"cutaway.{key}", value)
    for layer, values in sorted(directions.items()):
        writer.add_tensor(f"direction.{layer}", np.ascontiguousarray(values, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def random_like(directions: Directions, seed: int) -> Directions:
    """Normal random vectors, each orthogonal to its direction and as long."""
    rng = np.random.default_rng(seed)
    made = {}
    for layer, values in sorted(directions.items()):
        d = values.astype(np.float64)
        length = float(np.linalg.norm(d))
        drawn = rng.standard_normal(len(d))
        if length > 0:
            drawn -= (drawn @ d) / length**2 * d
        size = float(np.linalg.norm(drawn))
        made[layer] = (drawn * (length / size if size else 0.0)).astype(np.float32)
    return made


def steering(
    directions: Directions,
    strength: float = 1.0,
    layers: Sequence[int] | None = None,
    positions: str = "all",
) -> list[Edit]:
    """Edits that add directions to what leaves their layers; of those `layers` that have one.
    Raises `BadSetting` if none has.
    """
    wanted = [i for i in directions if layers is None or i in layers]
    if not wanted:
        held = f"{min(directions)} to {max(directions)}"
        raise BadSetting("layers", list(layers or ()), f"some of the file's layers, {held}")
    return [Edit.add("residual", i, directions[i], strength, positions) for i in wanted]
