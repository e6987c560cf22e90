"""Lenses from files: matrices that read a layer better than the model's own output does.

- Jacobian lens (anthropics/jacobian-lens): `J.L` [d, d] for the output of block L: J h.
- Tuned lens (AlignmentResearch/tuned-lens): `I.weight` [d, d], `I.bias` [d] for the input of block
  I, which is the output of block I - 1: h + W h + b; `config.json` next to it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.arrays.open import ArrayFile, json_object, open_arrays
from engine.errors import BadFile

Floats = NDArray[np.float32]
LensKind = Literal["jacobian", "tuned"]
_JACOBIAN = re.compile(r"J\.(\d{1,4})", re.ASCII)
_TUNED = re.compile(r"(\d{1,4})\.(weight|bias)", re.ASCII)
TUNED = "linear_tuned_lens"


@dataclass(frozen=True)
class LensFile:
    """A lens for models of width `d`; `layers` are blocks whose output it reads."""

    kind: LensKind
    d: int
    n_prompts: int
    _file: ArrayFile
    _names: Mapping[int, str]

    @property
    def layers(self) -> list[int]:
        """Blocks whose output it reads."""
        return sorted(self._names)

    def apply(self, layer: int, row: Floats) -> Floats:
        """Return what the last norm and output read instead of a layer's row [d]."""
        name = self._names[layer]
        if self.kind == "jacobian":
            return self._file.array(name) @ row
        bias = self._file.array(name.replace("weight", "bias"))
        return row + self._file.array(name) @ row + bias

    def check(self, d: int, n_layer: int) -> None:
        """Raise `BadFile` unless it is for a model of this width and number of layers."""
        if self.d != d:
            raise BadFile(self._file.path, f"the lens is for {self.d}, the model has {d}")
        if self.layers[-1] >= n_layer:
            most = f"layer {self.layers[-1]}, the model has {n_layer} layers"
            raise BadFile(self._file.path, f"the lens reads {most}")


def open_lens(path: str | PathLike[str]) -> LensFile:
    """Open a lens. Raises `BadFile`."""
    file = open_arrays(path)
    if file.metadata.get("format") == "jacobian_lens" or any(
        _JACOBIAN.fullmatch(name) for name in file.shapes
    ):
        return _jacobian(file)
    if any(_TUNED.fullmatch(name) for name in file.shapes):
        return _tuned(file)
    raise BadFile(path, "has neither J.0 (Jacobian lens) nor 0.weight (tuned lens)")


def _jacobian(file: ArrayFile) -> LensFile:
    names = {}
    for name in file.shapes:
        named = _JACOBIAN.fullmatch(name)
        if named is None:
            raise BadFile(file.path, f"{name!r} is not part of a Jacobian lens, J.LAYER")
        names[int(named[1])] = name
    d = _width(file, names)
    stated = file.metadata.get("d_model", str(d))
    if stated != str(d):
        raise BadFile(file.path, f"d_model is {stated[:20]!r}, its matrices are {d} x {d}")
    return LensFile("jacobian", d, _count(file.metadata.get("n_prompts", "0")), file, names)


def _tuned(file: ArrayFile) -> LensFile:
    config = file.path.with_name("config.json")
    kind = json_object(config).get("lens_type", TUNED) if config.exists() else TUNED
    if kind != TUNED:
        raise BadFile(config, f"lens_type {kind!r} is not {TUNED}")
    names = {}
    for name in file.shapes:
        named = _TUNED.fullmatch(name)
        if named is None:
            raise BadFile(file.path, f"{name!r} is not part of a tuned lens, 0.weight, 0.bias")
        if named[2] == "weight" and int(named[1]) > 0:  # number 0 reads the embedding
            names[int(named[1]) - 1] = name
    d = _width(file, names)
    for name in names.values():
        bias = name.replace("weight", "bias")
        if file.shapes.get(bias) != (d,):
            raise BadFile(file.path, f"{bias} is not [{d}]")
    return LensFile("tuned", d, 0, file, names)


def _width(file: ArrayFile, names: Mapping[int, str]) -> int:
    shapes = {file.shapes[name] for name in names.values()}
    if len(shapes) != 1:
        raise BadFile(file.path, f"a lens has matrices of one size, not of {len(shapes)}")
    shape = shapes.pop()
    if len(shape) != 2 or shape[0] != shape[1] or not shape[0]:
        raise BadFile(file.path, f"its matrices are {list(shape)}, not square")
    return shape[0]


def _count(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 12 else 0
