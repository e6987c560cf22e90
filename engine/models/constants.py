"""Small tensors that become numbers of the forward pass instead of weights."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadFile
from engine.gguf import GGUFFile
from engine.graph.tensor import pad_shape
from engine.weights.params import Range

Values = NDArray[np.float32]

ROPE_FACTORS = "rope_freqs.weight"
"""What the frequencies of a rope's pairs are divided by; 1e30 stops a pair."""


@dataclass(frozen=True)
class Constant:
    """A small tensor of the file that the host reads while the model is made; it may be absent.

    Its header must say exactly `shape` (ggml's order) before a byte of it is read.
    """

    name: str
    shape: tuple[int, ...]
    allowed: Range


def read_constants(wanted: Iterable[Constant], file: GGUFFile) -> Mapping[str, Values]:
    """The constants that are in the file, by name, in reversed (NumPy) shape. Raises `BadFile`."""
    constants: dict[str, Values] = {}
    for constant in wanted:
        info = file.tensors.get(constant.name)
        if info is None:
            continue
        if info.shape != pad_shape(constant.name, constant.shape):
            shape = list(info.shape[: info.n_dims])
            problem = f"{constant.name} is {shape}; expected {list(constant.shape)}"
            raise BadFile(file.paths[0], problem)
        values = file.array(constant.name).reshape(constant.shape[::-1])
        for value in (float(values.min()), float(values.max())):  # both NaN where one is
            if not constant.allowed.has(value):
                problem = f"{constant.name} holds {value:g}; expected {constant.allowed}"
                raise BadFile(file.paths[0], problem)
        constants[constant.name] = values
    return constants


def rope_factors(n_rot: int) -> Constant:
    """The factors of a rope that turns `n_rot` channels."""
    return Constant(ROPE_FACTORS, (n_rot // 2,), Range(1e-6, 3e38))


def factors_by_pair(constants: Mapping[str, Values]) -> tuple[float, ...] | None:
    """Return the file's RoPE factors, or None."""
    factors = constants.get(ROPE_FACTORS)
    return None if factors is None else tuple(factors.tolist())


SHORT, LONG = "rope_factors_short.weight", "rope_factors_long.weight"
"""The factors of LongRoPE (Ding et al. 2024)."""


def rope_factors_by_length(n_rot: int) -> Sequence[Constant]:
    """The factors for texts up to the original context, and those for longer ones."""
    return [Constant(name, (n_rot // 2,), Range(1e-6, 3e38)) for name in (SHORT, LONG)]


def factors_by_length(constants: Mapping[str, Values], is_long: bool) -> tuple[float, ...] | None:
    """Return the file's factors for such texts, or None."""
    factors = constants.get(LONG if is_long else SHORT)
    return None if factors is None else tuple(factors.tolist())
