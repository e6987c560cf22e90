"""Second stage of training: the text model learns to answer, then the tower learns with it.

Run `python -m tests.demo.speak FOLDER [--steps N]` after `tests.demo.look`, in the same FOLDER; a
later run goes on from what is kept there. Then comes `tests.demo.convert`. Made with torch 2.13.0
and transformers 5.23.0, which only training needs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from random import Random

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.demo.dialogue import Dialogues, Row
from tests.demo.network import ROWS, Heads, new_network, pixels
from tests.demo.scenes import MOST, Scene, draw, random_scene
from tests.demo.training import Optimizers, Progress
from tests.demo.vocabulary import BOS, IMAGE, IMAGE_END, IMAGE_ROW, PAD, tokenizer, tokens

PICTURES = 16
LENGTH = 160
QUESTIONS = 7
# The part of the steps in which the tower stays as it is, and those before one more shape is drawn.
FROZEN, EASIER = 0.5, (0.3, 0.42)
RATE = 1.2e-3


class Speaker(nn.Module):
    """The network with the heads that taught its tower, and what it says of rows of training."""

    def __init__(self) -> None:
        super().__init__()
        ids = [tokens().index(mark) for mark in (IMAGE, IMAGE_END, IMAGE_ROW)]
        self.network = new_network(len(tokens()), *ids)
        self.heads = Heads()

    def look(self, path: Path) -> None:
        """Take over what `tests.demo.look` has learnt."""
        parts = torch.load(path, weights_only=True)["parts"]
        names = {"tower": "vision_tower", "projector": "multi_modal_projector"}
        learnt = {".".join((names[a], b)): v for a, b, v in _parts(parts) if a in names}
        self.network.model.load_state_dict(learnt, strict=False)
        self.heads.load_state_dict({b: v for a, b, v in _parts(parts) if a == "heads"})

    @torch.compile(dynamic=False)
    def seen(self, picture: Tensor) -> Tensor:
        """The image rows of pictures."""
        return self.network.model.get_image_features(picture).pooler_output

    @torch.compile(dynamic=False)
    def read(self, embedded: Tensor, mask: Tensor, positions: Tensor) -> Tensor:
        """The text model's last hidden rows."""
        masks = {"full_attention": mask, "sliding_attention": mask}
        return self.network.model.language_model(
            inputs_embeds=embedded, attention_mask=masks, position_ids=positions, use_cache=False
        ).last_hidden_state

    def loss(self, rows: Sequence[Row], seen: Tensor) -> tuple[Tensor, list[tuple[str, bool]]]:
        """The loss over all answers, and for each its kind and whether it was right."""
        ids = _padded([r.ids for r in rows], PAD)
        images, groups = _padded([r.images for r in rows], 0), _padded([r.groups for r in rows], 0)
        embedded = self.network.get_input_embeddings()(ids)
        pictured = (images > 0).unsqueeze(-1).expand_as(embedded)
        embedded = embedded.masked_scatter(pictured, seen.to(embedded.dtype))
        positions = _padded([r.positions for r in rows], 0)
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self.read(embedded, _mask(groups, images), positions)
            answers = [(i, *a) for i, row in enumerate(rows) for a in row.answers]
            at = torch.cat([i * LENGTH + torch.arange(a - 1, b - 1) for i, _, a, b in answers])
            logits = self.network.lm_head(hidden.flatten(0, 1)[at]).float()
        wanted = ids.flatten()[at + 1]
        sizes = [b - a for _, _, a, b in answers]
        # Long answers count more than short ones, but not by all of their length.
        weights = torch.cat([torch.full((n,), n**-0.5) for n in sizes])
        losses = F.cross_entropy(logits, wanted, reduction="none")
        right = (logits.argmax(-1) == wanted).split(sizes)
        marks = [(a[1], bool(r.all())) for a, r in zip(answers, right, strict=True)]
        return (losses * weights).sum() / weights.sum(), marks


def batch(dialogues: Dialogues, random: Random, most: int) -> tuple[list[Row], list[Scene]]:
    """Rows of training about PICTURES pictures: half alone, a third chats, and chats of two."""
    scenes = [random_scene(random, most) for _ in range(PICTURES)]
    pairs, chats = PICTURES // 8, PICTURES // 4
    makers = [
        *(partial(dialogues.chat, scenes[2 * i : 2 * i + 2], QUESTIONS // 2) for i in range(pairs)),
        *(partial(dialogues.chat, [s], QUESTIONS) for s in scenes[2 * pairs : 2 * pairs + chats]),
        *(partial(dialogues.alone, s, QUESTIONS) for s in scenes[2 * pairs + chats :]),
    ]
    return [_fitting(make) for make in makers], scenes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=2400)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    speaker, kept = Speaker(), options.folder / "speak.pt"
    if not kept.exists():
        speaker.look(options.folder / "look.pt")
    taught = ("network.model.vision_tower", "network.model.multi_modal_projector", "heads")
    progress = Progress(kept, speaker, Optimizers(speaker, options.steps, RATE, taught))
    random = Random(progress.step + 1)
    dialogues = Dialogues(lru_cache(1 << 16)(tokenizer()), BOS, ROWS, random)
    by_kind: dict[str, float] = {}
    since = time.monotonic()
    while progress.step < options.steps:
        done = progress.step / options.steps
        rows, scenes = batch(dialogues, random, MOST - sum(done < end for end in EASIER))
        picture = pixels([draw(scene, random) for scene in scenes])
        with torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(done >= FROZEN):
            seen = speaker.seen(picture)
        loss, marks = speaker.loss(rows, seen)
        if done >= FROZEN:
            loss = loss + 0.1 * speaker.heads.loss(seen.float(), scenes)[0]
        progress.advance(loss, sum(right for _, right in marks) / len(marks))
        for kind, right in marks:
            by_kind[kind] = by_kind.get(kind, 0.0) * 0.98 + 0.02 * right
        if progress.step % 25 == 0:
            kinds = ", ".join(f"{kind} {right:.0%}" for kind, right in sorted(by_kind.items()))
            print(f"{time.monotonic() - since:.0f} s, {progress}; {kinds}", flush=True)
    progress.save()


def _parts(state: dict[str, Tensor]) -> list[tuple[str, str, Tensor]]:
    return [(*name.split(".", 1), values) for name, values in state.items()]


def _fitting(make: Callable[[], Row]) -> Row:
    while len((row := make()).ids) > LENGTH:
        pass
    return row


def _padded(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """int64 [rows, LENGTH]."""
    return torch.tensor([[*row, *[value] * (LENGTH - len(row))] for row in rows])


def _mask(groups: Tensor, images: Tensor) -> Tensor:
    """Who sees whom: bool [rows, 1, LENGTH, LENGTH].

    Each token sees those before it, of its group or of group 0; rows of one image see one another.
    """
    earlier = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    to, of = groups[:, :, None], groups[:, None, :]
    image = (images[:, :, None] == images[:, None, :]) & (images[:, :, None] > 0)
    return ((earlier & ((of == 0) | (of == to))) | image).unsqueeze(1)


if __name__ == "__main__":
    main()
