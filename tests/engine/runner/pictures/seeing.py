"""Tiny models that see, open in this process, and chats with them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from engine.images.decode import from_array
from engine.images.resize import Resizer
from engine.protocol import (
    ChatMessage,
    Finished,
    Generate,
    PictureLimits,
    PicturePart,
    Piece,
    Reply,
    Sampling,
    TextPart,
)
from engine.runner import load
from engine.runner.api import Model
from engine.runner.generate import generate
from engine.runner.pictures.compose import shown
from engine.runner.pictures.items import Item, PictureRow, Shown
from engine.runner.pictures.viewer import Viewer
from engine.runner.sequence import Sequenced
from tests.goldens.vision.families import files_of, write_pair, write_single
from tests.goldens.vision.layout import File
from tests.goldens.vision.store import Case, load_state

GREEDY = Sampling(temperature=0)


@contextmanager
def seeing(
    folder: Path, family: str, device: str = "host", is_single: bool = False, ctx: int = 512
) -> Iterator[Model]:
    """A family's tiny model, in float32 and with caches of float32."""
    path = write_single(folder, family) if is_single else write_pair(folder, family)[0]
    with load(path, device=device, ctx=ctx, kv="f32") as model:
        yield model


@contextmanager
def one_layer(folder: Path, family: str) -> Iterator[Model]:
    """The same with the first layer of its text alone: what the caches keep of an item depends on
    the item and its place, not on those before it.
    """
    files = files_of(family)
    text, mmproj = files.text(load_state(family)), files.mmproj(load_state(family))
    metadata = {**text.metadata, f"{text.architecture}.block_count": 1}
    tensors = {n: v for n, v in text.tensors.items() if not re.match(r"blk\.[1-9]", n)}
    text = File(text.architecture, metadata, tensors)
    mmproj.write(folder / f"mmproj-{family}.gguf")
    with load(text.write(folder / f"{family}.gguf"), device="host", ctx=512, kv="f32") as model:
        yield model


def viewer_of(model: Model) -> Viewer:
    assert model.loaded.viewer is not None
    return model.loaded.viewer


def sequence_of(model: Model) -> Sequenced:
    """A fresh context."""
    model.loaded.stepper.forget(0)
    return Sequenced(model.loaded.stepper, model.loaded.viewer)


def noise(seed: int, w: int = 60, h: int = 45) -> np.ndarray:
    """A picture that is like no other."""
    return np.random.default_rng(seed).integers(0, 256, (h, w, 3), np.uint8)


def bring(model: Model, pixels: np.ndarray) -> PicturePart:
    picture = from_array(pixels)
    viewer_of(model).album.put_pixels(picture)
    return PicturePart(picture.digest)


def says(*parts: str | PicturePart) -> ChatMessage:
    """A message of the user."""
    return ChatMessage("user", [TextPart(p) if isinstance(p, str) else p for p in parts])


def answer(
    model: Model, sequence: Sequenced, chat: Sequence[ChatMessage], n: int = 8, **more: object
) -> tuple[list[int], Finished]:
    """A greedy answer."""
    request = Generate(1, messages=list(chat), sampling=GREEDY, max_tokens=n, **more)  # type: ignore[arg-type]
    events: list[Reply] = list(generate(model.loaded, sequence, request, lambda: False))
    end = events[-1]
    assert isinstance(end, Finished)
    return [t.token for e in events if isinstance(e, Piece) for t in e.tokens], end


def logits(sequence: Sequenced, items: Sequence[Item]) -> np.ndarray:
    """Those after the last item [V]."""
    steps = sequence.prefill(items, lambda: False)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return np.asarray(end.value)


def items_of(model: Model, case: Case) -> list[Item]:
    """A stored prompt, its pictures brought."""
    pictures = iter(_rows(model, case))
    return [int(i) if i >= 0 else next(pictures) for i in case.ids]


def _rows(model: Model, case: Case) -> Iterator[PictureRow]:
    for seen in case.seen:
        limits = PictureLimits(one_view=len(seen.views) == 1)
        part = PicturePart(bring(model, seen.picture).digest, limits)
        picture: Shown = shown(model.loaded.tokenizer, viewer_of(model), part)
        for i in range(picture.n_rows):
            yield PictureRow(picture, i)


def same_views(model: Model, case: Case) -> bool:
    """Whether the tower sees exactly the stored views."""
    tower = viewer_of(model).tower
    for row in _rows(model, case):
        if row.row == 0:
            picture = viewer_of(model).album.picture(row.picture.digest)
            resizer = Resizer(picture, tower.rule)
            made = [resizer.shown(view) for view in row.picture.plan.views]
            stored = next(s for s in case.seen if np.array_equal(s.picture, picture.rgb))
            if not all((a == b).all() for a, b in zip(made, stored.views, strict=True)):
                return False
    return True
