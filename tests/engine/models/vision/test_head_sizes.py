"""Towers with heads of published sizes, which are no powers of two, on devices against the host.

Each is a family's own file with one block of random weights: Gemma 3 (heads of 72 channels), Qwen
2-VL (80, turned) and Llama 4 (88, turned, with a class row). As in the published SigLIP, 72 comes
with a feed-forward that is not a multiple of 32, whose matrix stays F16 in a file of Q8_0.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from engine.backends.opencl.drivers.device import list_devices
from tests.engine.models.vision.running import host_of, running
from tests.goldens.tiny import Draws
from tests.goldens.vision.families import files_of, host_sizes
from tests.goldens.vision.store import load_state
from tests.truth.compare import nmse

OPENCL = [pytest.param(i.name, marks=pytest.mark.device, id=i.name) for i in list_devices()]


class Shape(NamedTuple):
    """A family and the numbers of its block; `side` is a picture's, in patches."""

    family: str
    heads: int
    feed_forward: int
    side: int


BY_HEAD = {
    72: Shape("gemma3", 4, 304, 16),
    80: Shape("qwen2vl", 2, 320, 10),
    88: Shape("llama4", 4, 384, 8),
}
PATCH = 7
"""Pixels along a side, in all of them."""


def write(path: Path, head: int, kind: Kind) -> Path:
    """The family's mmproj with that head size, and one block."""
    shape = BY_HEAD[head]
    tiny = files_of(shape.family).mmproj(load_state(shape.family))
    key = "clip.vision."
    old, width = tiny.metadata[f"{key}embedding_length"], shape.heads * head
    old_forward, _ = tiny.tensors["v.blk.0.ffn_up.weight"].shape
    within = {old: width, old_forward: shape.feed_forward}
    around = {old: width, 4 * old: 4 * width}
    draws, tensors = Draws(head), {}
    for name, values in tiny.tensors.items():
        if ".blk.1." not in name:
            sides = within if ".blk." in name else around
            sizes = [sides.get(n, n) for n in values.shape]
            if "position" in name and shape.family == "llama4":
                sizes[0] = shape.side**2 + 1
            tensors[name] = drawn(draws, name, sizes)
    keys = {"embedding_length": width, "attention.head_count": shape.heads, "block_count": 1}
    keys["image_size"] = PATCH * shape.side
    metadata = dict(tiny.metadata) | {key + name: value for name, value in keys.items()}
    return replace(tiny, metadata=metadata, tensors=tensors).write(path, kind)


def drawn(draws: Draws, name: str, sizes: Sequence[int]) -> np.ndarray:
    """Values that float16 holds; queries and keys are large enough to choose among patches."""
    if len(sizes) == 1:
        made = draws.norm(*sizes) if name.endswith("weight") else draws.uniform(*sizes) / 2
    else:
        gain = 2.0 if "attn_q." in name or "attn_k." in name else 1.0
        made = draws.matrix(sizes[0], prod(sizes[1:]), gain).reshape(sizes)
    return made.astype(np.float16).astype(np.float32)


def rows(path: Path, head: int, device: str) -> np.ndarray:
    """Those of one picture, f32 [n, E]."""
    shape = BY_HEAD[head]
    sizes = host_sizes(shape.family)
    side = PATCH * shape.side
    view = ((Draws(7).uniform(side, side, 3) + 1) * 127.5).astype(np.uint8)
    with running(path, host_of(shape.family, sizes.embedding, sizes.eps), device) as tower:
        assert tower.built.tower.params.head_dim == head
        return tower.rows(view)


@pytest.mark.full_cases("pocl:0-(?!88-8)")  # another driver sees with one size
@pytest.mark.parametrize("kind", [Kind.F16, Kind.Q8_0])
@pytest.mark.parametrize("head", BY_HEAD)
@pytest.mark.parametrize("device", OPENCL)
def test_rows_on_devices_are_those_of_the_host(
    device: str, head: int, kind: Kind, tmp_path: Path
) -> None:
    path = write(tmp_path / "tower.gguf", head, kind)
    exact = rows(path, head, "host")
    assert exact.std(axis=0).min() > 0.01
    error = nmse(rows(path, head, device), exact)
    print(f"{error:.1e}")
    assert error < 1e-5
