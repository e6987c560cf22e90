"""Launches of whole models on a GPU, from headers alone: no device, no weights."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod
from os import truncate
from pathlib import Path
from typing import NamedTuple

from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.gguf.reader import open_gguf
from engine.gguf.values import ValueType
from engine.models.build import BuiltModel, build_model
from engine.runner.programs import BATCH, CONTEXT, steps
from tests.engine.models.published.header import pair
from tests.engine.models.published.sizes import SIZES
from tests.engine.models.published.weights import BLOCKS, kind_of
from tests.gguf_files import Blocks, Draft, padded

TRAITS = DeviceTraits(False, 64, 1024, 32 << 10)
"""A GPU with the smallest local memory that OpenCL allows."""

OWN = ("DOT4=", "MATRIX=", "SUB_GROUP=", "LARGE_GRF=")
"""Defines that name a device's own instructions; figures of all targets stand under one name."""

Q4_0, Q8_0 = 2, 8
MODELS: Mapping[str, tuple[str, int | None]] = {
    "8b": ("llama-3.1-8b", None),
    "8b-q4_0": ("llama-3.1-8b", Q4_0),
    "8b-q8_0": ("llama-3.1-8b", Q8_0),
    "gemma": ("gemma3-4b", None),
    "experts": ("qwen3-30b-a3b", None),
}
"""Each model's size, and the one format of its matrices; None is the mix of Q4_K_M."""


def written(folder: Path, model: str) -> Path:
    """The header of a model's file, in front of a hole."""
    name, flat = MODELS[model]
    size = SIZES[name]
    path = folder / f"{model}.gguf"
    pairs = {"general.architecture": pair(size.arch), "general.name": pair(model)}
    pairs |= {f"{size.arch}.{key}": pair(value) for key, value in size.keys.items()}
    pairs["tokenizer.ggml.model"] = pair("gpt2")
    pairs["tokenizer.ggml.tokens"] = (ValueType.ARRAY, (ValueType.STRING, ["a"] * 64))
    tensors, offsets, end = {}, {}, 0
    for tensor, shape in size.shapes.items():
        kind = kind_of(tensor, size, flat)
        weights, nbytes = BLOCKS[kind]
        tensors[tensor] = Blocks(kind, shape, b"")
        offsets[tensor] = end
        end += padded(prod(shape) // weights * nbytes, 32)
    header = Draft(pairs, tensors, offsets=offsets).header()
    path.write_bytes(header)
    truncate(path, padded(len(header), 32) + end)
    return path


def built(folder: Path, model: str) -> BuiltModel:
    """The model behind a header."""
    with open_gguf(written(folder, model)) as file:
        return build_model(file, CONTEXT, BATCH)


class Program(NamedTuple):
    """A kernel as some launch of a step wants it built."""

    family: str
    kernel: str
    defines: tuple[str, ...]

    @classmethod
    def of(cls, launch: Launch) -> "Program":
        defines = tuple(f"{name}={value}" for name, value in sorted(launch.defines.items()))
        return cls(launch.family, launch.kernel, defines)

    @property
    def name(self) -> str:
        """How the file of figures and its reader call it."""
        known = [one for one in self.defines if not one.startswith(OWN)]
        return " ".join((f"{self.family}.{self.kernel}", *known))

    @property
    def multiply_adds(self) -> int:
        """Those of a turn of its innermost loop, for products that multiply pairs: a block of one
        column, or of several; or a word of four columns (WORDS_AT_ONCE in tiled_sums.cl).
        """
        given = dict(define.split("=", 1) for define in self.defines)
        if "WORDS" not in given or not self.family.startswith("matmul"):
            return 0
        panel = int(given["PANEL"])
        whole = panel == 1 or given["HIGH"] != "0" or given["SUMS"] == "2"
        return 32 * panel if whole else 32


def programs(
    folder: Path,
    dot4: str = "",
    matrix: str = "",
    halves: str = "",
    traits: DeviceTraits = TRAITS,
    models: Iterable[str] = MODELS,
) -> list[Program]:
    """Every program of the models' decode and prefill steps, each once, on a device that has such
    instructions.
    """
    found: dict[Program, None] = {}
    traits = replace(traits, dot4=dot4, matrix=matrix, halves=halves)
    for model in models:
        for launched in steps(built(folder, model), traits).values():
            found |= dict.fromkeys(map(Program.of, launched))
    return list(found)
