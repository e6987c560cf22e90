"""First stage of training: the tower learns to look, taught by heads on each image row.

Run `python -m tests.demo.look FOLDER [--steps N]`, then `tests.demo.speak`. What is learnt is kept
in FOLDER every few minutes, from where a later run goes on. Made with torch 2.13.0 and transformers
5.23.0, which only training needs.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from random import Random

import torch
from torch import nn

from tests.demo.network import Heads, new_network, pixels
from tests.demo.scenes import MOST, draw, random_scene
from tests.demo.training import Optimizers, Progress

BATCH = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=2000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    network = new_network(vocabulary=8).model
    tower, projector = network.vision_tower, network.multi_modal_projector
    parts = nn.ModuleDict({"tower": tower, "projector": projector, "heads": Heads()})
    progress = Progress(options.folder / "look.pt", parts, Optimizers(parts, options.steps))
    random = Random(progress.step + 1)

    @torch.compile(dynamic=False)
    def rows(picture: torch.Tensor) -> torch.Tensor:
        return network.get_image_features(picture).pooler_output

    since = time.monotonic()
    while progress.step < options.steps:
        most = min(MOST, 1 + progress.step * 12 // options.steps)
        scenes = [random_scene(random, most) for _ in range(BATCH)]
        picture = pixels([draw(scene, random) for scene in scenes])
        with torch.autocast("cpu", torch.bfloat16):
            seen = rows(picture)
        loss, right = parts["heads"].loss(seen.float(), scenes)
        progress.advance(loss, right)
        if progress.step % 25 == 0:
            print(most, progress, f"{time.monotonic() - since:.0f} s", flush=True)
    progress.save()


if __name__ == "__main__":
    main()
