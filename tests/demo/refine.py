"""Goes on from the files that come with the program: more training on what they get wrong.

Run `python -m tests.demo.refine FOLDER`, then `tests.demo.convert` with the same FOLDER.
What `tests.demo.speak` learnt is read back from the GGUF files, so nothing of it need be kept. The
heads that taught the tower are not in the files: the answers alone teach from here on. Made with
torch 2.13.0 and transformers 5.23.0.
"""

from __future__ import annotations

import argparse
import time
from functools import lru_cache
from pathlib import Path
from random import Random

import gguf
import numpy as np
import torch

from tests.demo import dialogue
from tests.demo.convert import FILES
from tests.demo.dialogue import Dialogues
from tests.demo.network import ROWS, pixels
from tests.demo.scenes import MOST, draw
from tests.demo.speak import Speaker, batch
from tests.demo.training import Optimizers, Progress
from tests.demo.vocabulary import BOS, tokenizer
from tests.goldens.vision.files.gemma3 import MMPROJ, TEXT_PARTS
from tests.goldens.vision.layout import renamed

RATE = 3e-4
WEIGHTS = {"beside": 8.0, "describe": 4.0, "larger": 2.0}
"""How often the kinds are asked that are wrong most often."""


def read_back(speaker: Speaker) -> None:
    """Fill the network with the weights of the files."""
    stored: dict[str, np.ndarray] = {}
    for path in sorted(FILES.glob("*.gguf")):
        for tensor in gguf.GGUFReader(path).tensors:
            stored[tensor.name] = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    state = speaker.network.state_dict()
    for name, values in state.items():
        place = {name: np.zeros(0, np.float32)}
        found = [*renamed(place, TEXT_PARTS), *renamed(place, MMPROJ)]
        if not found or found[0][0] not in stored:
            assert name == "lm_head.weight", name  # the same as the embeddings
            continue
        key = found[0][0]
        weights = stored[key].reshape(values.shape).astype(np.float32)
        shifted = "norm" in key and (key.startswith("mm.") or not key.startswith(("v.", "mm.")))
        values.copy_(torch.from_numpy(weights - 1 if shifted else weights))
    speaker.network.load_state_dict(state)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=2000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(2)
    dialogue._WEIGHTS.update(WEIGHTS)
    speaker, kept = Speaker(), options.folder / "speak.pt"
    if not kept.exists():
        read_back(speaker)
    taught = ("network.model.vision_tower", "network.model.multi_modal_projector")
    speaker.heads.requires_grad_(False)
    progress = Progress(kept, speaker, Optimizers(speaker, options.steps, RATE, taught))
    random = Random(1_000_000 + progress.step)
    dialogues = Dialogues(lru_cache(1 << 16)(tokenizer()), BOS, ROWS, random)
    by_kind: dict[str, float] = {}
    since = time.monotonic()
    while progress.step < options.steps:
        rows, scenes = batch(dialogues, random, MOST)
        picture = pixels([draw(scene, random) for scene in scenes])
        with torch.autocast("cpu", torch.bfloat16):
            seen = speaker.seen(picture)
        loss, marks = speaker.loss(rows, seen)
        progress.advance(loss, sum(right for _, right in marks) / len(marks))
        for kind, right in marks:
            by_kind[kind] = by_kind.get(kind, 1.0) * 0.98 + 0.02 * right
        if progress.step % 25 == 0:
            kinds = ", ".join(f"{kind} {right:.0%}" for kind, right in sorted(by_kind.items()))
            print(f"{time.monotonic() - since:.0f} s, {progress}; {kinds}", flush=True)
    progress.save()


if __name__ == "__main__":
    main()
