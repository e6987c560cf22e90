"""Files of random weights compute: their logits are finite and neither vanish nor explode."""

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

from engine.protocol import Finished, Speculation
from engine.runner import load
from tests.engine.models.published.dense import HEADS
from tests.engine.models.published.recurrent import qwen35
from tests.engine.models.published.size import (
    NORMS,
    Size,
    attention,
    dense,
    experts,
    keys,
    vectors,
    whole,
)
from tests.engine.models.published.weights import HALVES, predicting, write
from tests.engine.runner.answering.many import Many, asked, ids
from tests.engine.runner.drafting.test_draft_model import Guessing

MOE = {**attention(256, 4, 2, 128), **experts(256, 256, 4), **vectors(NORMS, 256), **HEADS}
CHOICE = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 256}
SMALL = {
    "dense": dense("llama", 0, (4, 256, 512, 4, 2, 64, 512), tied=True),
    "experts": Size(
        *("qwen3moe", 0, 0, 512),
        keys(4, 256, 256, 4, 2, 128, **CHOICE),
        whole(4, 256, 512, lambda i: MOE, tied=True),
    ),
    "hybrid": qwen35("qwen35", 0, (4, 256, 512, 4, 2, 128, 512), 16),
}


@pytest.mark.parametrize("size", SMALL.values(), ids=SMALL)
def test_logits_are_of_usual_size(size: Size, tmp_path: Path) -> None:
    with load(write(tmp_path / "made.gguf", size), device="host", ctx=64) as model:
        ((_, logits),) = model.logits(list(range(20)))
        assert np.isfinite(logits).all()
        assert 0.05 < logits.std() < 50
        assert len(np.unique(logits.argmax(-1))) > 1


@pytest.mark.parametrize("kind", [*HALVES, Type.MXFP4], ids=lambda kind: Type(kind).name)
def test_all_matrices_of_one_format(kind: int, tmp_path: Path) -> None:
    with load(
        write(tmp_path / "made.gguf", SMALL["dense"], flat=kind), device="host", ctx=64
    ) as model:
        ((_, logits),) = model.logits(list(range(20)))
        assert 0.05 < logits.std() < 50


def test_a_block_that_predicts_is_always_right(tmp_path: Path) -> None:
    path = write(tmp_path / "made.gguf", predicting(SMALL["hybrid"]))
    with load(path, device="host", kv="f32", ctx=64, cells=0, spec_type="mtp") as model:
        many = Many(model, economy=Guessing(3))
        many.ask(asked(1, ids(3, 500)[:10], 24, speculation=Speculation("mtp")))
        many.finish()
        end = many.end(1)
        assert isinstance(end, Finished)
        assert end.stats.n_accepted >= 0.9 * end.stats.n_drafted > 10


def test_one_that_counts(tmp_path: Path) -> None:
    size = dense("llama", 0, (2, 256, 512, 4, 2, 64, 512))
    with load(write(tmp_path / "made.gguf", size, counts=True), device="host", ctx=64) as model:
        ((_, logits),) = model.logits(ids(3, 20))
        assert logits.argmax(-1).tolist() == [token + 1 for token in ids(3, 20)]
