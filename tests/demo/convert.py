"""Last stage: the trained network becomes the two GGUF files that the window offers.

Run `python -m tests.demo.convert FOLDER` after `tests.demo.speak`, in the same FOLDER. It needs
torch, to read what was kept there.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind

from tests.demo.network import (
    CELLS_PER_SIDE,
    CONTEXT,
    FEED_FORWARD,
    HEAD_SIZE,
    HEADS,
    IMAGE_SIZE,
    KV_HEADS,
    PATCH,
    TEXT_LAYERS,
    TOWER_LAYERS,
    WIDTH,
    WINDOW,
)
from tests.demo.vocabulary import metadata
from tests.goldens.vision.files.gemma3 import MMPROJ, TEXT_PARTS
from tests.goldens.vision.files.text import TextSizes
from tests.goldens.vision.files.tower import TowerSizes
from tests.goldens.vision.layout import File, State, renamed

FILES = Path(__file__).parents[2] / "resources" / "demo"
NAME = "Cutaway Shapes"
_NAMED = {
    "general.name": NAME,
    "general.license": "mit",
    "general.description": "Answers questions about one to four drawn shapes.",
}
_EPSILON = 1e-6


def text_file(state: State) -> File:
    """The text model; its norms multiply by 1 + what was learnt, files hold the sum."""
    sizes = TextSizes(
        TEXT_LAYERS, WIDTH, HEADS, KV_HEADS, HEAD_SIZE, FEED_FORWARD, eps=_EPSILON, base=1e6
    )
    own = {"gemma3.context_length": CONTEXT, "gemma3.attention.sliding_window": WINDOW}
    own |= {"general.sampling.temp": 0.0}  # the likeliest word is what it sees
    tensors = dict(renamed(state, TEXT_PARTS))
    del tensors["output.weight"]  # the same as token_embd.weight
    tensors = {name: w + 1 if "norm" in name else w for name, w in tensors.items()}
    return File("gemma3", sizes.metadata("gemma3") | _NAMED | own | metadata(), tensors)


def tower_file(state: State) -> File:
    """The tower and its projector, as llama.cpp has them in a file of their own."""
    sizes = TowerSizes(IMAGE_SIZE, PATCH, TOWER_LAYERS, WIDTH, HEADS, FEED_FORWARD, _EPSILON)
    factor = IMAGE_SIZE // PATCH // CELLS_PER_SIDE
    keys = sizes.mmproj("gemma3", WIDTH, projector__scale_factor=factor)
    tensors = dict(renamed(state, MMPROJ))
    tensors["mm.soft_emb_norm.weight"] += 1
    return File("clip", _NAMED | {"clip.use_gelu": True} | keys, tensors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    parts = torch.load(options.folder / "speak.pt", weights_only=True)["parts"]
    state = {
        name.removeprefix("network."): weights.float().numpy().astype(np.float32)
        for name, weights in parts.items()
        if name.startswith("network.")
    }
    FILES.mkdir(parents=True, exist_ok=True)
    text_file(state).write(FILES / "cutaway-shapes-q8_0.gguf", Kind.Q8_0)
    tower_file(state).write(FILES / "mmproj-cutaway-shapes-f16.gguf", Kind.F16)
    for path in sorted(FILES.glob("*.gguf")):
        print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
