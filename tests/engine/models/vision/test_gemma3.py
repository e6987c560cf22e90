"""Gemma 3's tower against its definition, from both kinds of file."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.images.plan import Limits, Rows, Size, Text
from tests.engine.models.vision.definition import (
    attention,
    convolved,
    gelu_tanh,
    layer_norm,
    linear,
    rms_norm,
)
from tests.engine.models.vision.running import host_of, running
from tests.goldens.tiny import Draws
from tests.goldens.vision.families import write_pair, write_single
from tests.goldens.vision.files.gemma3 import TEXT, TOWER
from tests.truth.compare import nmse

HOST = host_of("gemma3", TEXT.embedding)
SIDE, GRID, POOL, EPS = TOWER.side, TOWER.side // TOWER.patch, 4, 1e-6
VIEW = ((Draws(5).uniform(SIDE, SIDE, 3) + 1) * 127.5).astype(np.uint8)


def tensors(path: Path) -> dict[str, np.ndarray]:
    """As the `gguf` package reads them, in float64."""
    return {t.name: t.data.astype(np.float64) for t in gguf.GGUFReader(path).tensors}


def by_definition(w: dict[str, np.ndarray], view: np.ndarray) -> np.ndarray:
    """Rows [16, E] of a picture, in float64."""
    x = convolved(view / 127.5 - 1, w["v.patch_embd.weight"], w["v.patch_embd.bias"])
    x = x + w["v.position_embd.weight"]
    for i in range(TOWER.blocks):
        at = f"v.blk.{i}."
        h = layer_norm(x, w[f"{at}ln1.weight"], w[f"{at}ln1.bias"], EPS)
        q, k, v = (
            linear(h, w, f"{at}attn_{part}").reshape(len(x), TOWER.heads, -1) for part in "qkv"
        )
        x = x + linear(attention(q, k, v), w, f"{at}attn_out")
        h = layer_norm(x, w[f"{at}ln2.weight"], w[f"{at}ln2.bias"], EPS)
        x = x + linear(gelu_tanh(linear(h, w, f"{at}ffn_up")), w, f"{at}ffn_down")
    x = layer_norm(x, w["v.post_ln.weight"], w["v.post_ln.bias"], EPS)
    side = GRID // POOL
    x = x.reshape(side, POOL, side, POOL, -1).mean((1, 3)).reshape(side * side, -1)
    return rms_norm(x, w["mm.soft_emb_norm.weight"], EPS) @ w["mm.input_projection.weight"]


def test_it_computes_what_it_defines(tmp_path: Path) -> None:
    _, path = write_pair(tmp_path, "gemma3")
    with running(path, HOST) as tower:
        rows = tower.rows(VIEW)
    assert nmse(rows, by_definition(tensors(path), VIEW)) < 1e-11


def test_both_files_are_the_same_tower(tmp_path: Path) -> None:
    _, path = write_pair(tmp_path, "gemma3")
    with running(path, HOST) as tower, running(write_single(tmp_path, "gemma3"), HOST) as other:
        assert np.array_equal(tower.rows(VIEW), other.rows(VIEW))
        names = [{t.name for t in made.built.sources} for made in (tower, other)]
    assert names[0] == names[1]


@pytest.mark.parametrize("size", [Size(1, 1), Size(31, 17), Size(4000, 3000), Size(SIDE, SIDE)])
def test_every_picture_is_one_square(size: Size, tmp_path: Path) -> None:
    _, path = write_pair(tmp_path, "gemma3")
    with running(path, HOST) as running_:
        tower = running_.built.tower
        plan = tower.plan(size, Limits())
        assert tower.worst(Limits()) == GRID**2
    assert plan.pieces == (Text("\n\n<start_of_image>"), Rows(0, 0, 16), Text("<end_of_image>\n\n"))
    assert not plan.causal
    assert plan.views[0].size == (SIDE, SIDE)
    assert plan.views[0].original == size
