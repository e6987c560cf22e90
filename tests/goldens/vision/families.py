"""The families by name, and their files; everything done for each family takes them from here."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from gguf import GGMLQuantizationType as Kind

from tests.goldens.vision.files.text import TextSizes
from tests.goldens.vision.store import load_state

PAIR = (
    *("gemma3", "gemma4", "gemma4e", "gemma4u", "idefics3", "mistral3", "llava"),
    *("qwen2vl", "qwen25vl", "qwen3vl", "qwen35"),
    *("llama4", "pixtral", "llava_next", "internvl", "lfm2"),
    *("glm4v", "glm4vmoe", "glmocr", "minicpmv", "kimivl"),
    *("paddleocr", "hunyuanvl", "lightonocr", "dotsocr", "minicpmv46", "kimik25", "janus"),
)
"""Those with llama.cpp's layout: the text's file and the tower's."""

SINGLE = ("gemma3", "mistral3", "qwen25vl", "qwen3vl", "mllama", "llama4")
"""Those with Ollama's layout: one file with both parts."""

TEXTS = {
    "qwen2": ("internvl", False),
    "qwen2vl": ("qwen2vl", False),
    "qwen25vl": ("qwen25vl", True),
    "qwen3vl": ("qwen3vl", False),
    "llama4": ("llama4", False),
    "mllama": ("mllama", True),
}
"""Architectures of text models that these files alone have, and whether a single one has it."""

FAMILIES = tuple(dict.fromkeys(PAIR + SINGLE))


def write_pair(folder: Path, family: str, tower: Kind = Kind.F32) -> tuple[Path, Path]:
    """llama.cpp's two files, text (in F32) and mmproj, with matrices of `tower` in the latter."""
    files, state = files_of(family), load_state(family)
    folder.mkdir(exist_ok=True)
    text = files.text(state).write(folder / f"{family}.gguf")
    return text, files.mmproj(state).write(folder / f"mmproj-{family}.gguf", tower)


def write_single(folder: Path, family: str, kind: Kind = Kind.F32) -> Path:
    """Ollama's single file, all matrices of `kind`."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{family}-single.gguf"
    written: Path = files_of(family).single(load_state(family)).write(path, kind)
    return written


def write_text(path: Path, architecture: str) -> Path:
    """A file of one of TEXTS; a single one has its tower too."""
    family, is_single = TEXTS[architecture]
    files, state = files_of(family), load_state(family)
    file = files.single(state) if is_single else files.text(state)
    written: Path = file.write(path)
    return written


def host_sizes(family: str) -> TextSizes:
    """The numbers of its text model."""
    sizes: TextSizes = files_of(family).TEXT
    return sizes


def files_of(family: str) -> Any:
    """The module that lays its files out."""
    return import_module(f"tests.goldens.vision.files.{family}")
