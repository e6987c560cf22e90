"""The families by name, and their files; everything done for each family takes them from here."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from gguf import GGMLQuantizationType as Kind

from tests.goldens.vision.files.text import TextSizes
from tests.goldens.vision.store import load_state

PAIR = (
    *("gemma3", "idefics3", "mistral3", "llava"),
    *("qwen2vl", "qwen25vl", "qwen3vl"),
    *("llama4", "pixtral", "llava_next", "internvl"),
)
"""Those with llama.cpp's layout: the text's file and the tower's."""

SINGLE = ("gemma3", "mistral3", "qwen25vl", "qwen3vl", "mllama", "llama4")
"""Those with Ollama's layout: one file with both parts."""

FAMILIES = tuple(dict.fromkeys(PAIR + SINGLE))


def write_pair(folder: Path, family: str, tower: Kind = Kind.F32) -> tuple[Path, Path]:
    """llama.cpp's two files, text (in F32) and mmproj, with matrices of `tower` in the latter."""
    files, state = _files(family), load_state(family)
    folder.mkdir(exist_ok=True)
    text = files.text(state).write(folder / f"{family}.gguf")
    return text, files.mmproj(state).write(folder / f"mmproj-{family}.gguf", tower)


def write_single(folder: Path, family: str, kind: Kind = Kind.F32) -> Path:
    """Ollama's single file, all matrices of `kind`."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{family}-single.gguf"
    written: Path = _files(family).single(load_state(family)).write(path, kind)
    return written


def host_sizes(family: str) -> TextSizes:
    """The numbers of its text model."""
    sizes: TextSizes = _files(family).TEXT
    return sizes


def _files(family: str):  # type: ignore[no-untyped-def]
    return import_module(f"tests.goldens.vision.files.{family}")
