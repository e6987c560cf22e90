"""Keys at other positions than they were made at: turned there, or made again."""

from pathlib import Path

import numpy as np
import pytest

from engine.errors import BadFile, NotSupported
from engine.gguf import open_gguf
from engine.models.build import build_model
from engine.runner import load
from engine.runner.sequence import Sequenced
from tests.engine.models.test_latent import rows_of
from tests.engine.models.text.files import golden, write
from tests.engine.models.text.rows import ROWS
from tests.truth.compare import nmse

TURNED = ("arcee", "ernie4_5", "gptneox", "hunyuan-dense", "nemotron", "olmoe")


@pytest.mark.parametrize("name", TURNED)
def test_a_shift_turns_keys_to_their_new_positions(name: str, tmp_path: Path) -> None:
    """Keys of layer 0 depend on token and position alone: shifted ones equal those made there."""
    row = ROWS[name]
    tokens = golden(row)[0][0][:40].tolist()
    with load(write(row, tmp_path), device="host", kv="f32", ctx=64) as model:
        stepper = model.loaded.stepper
        stepper.step(tokens, 0, [39])
        before = rows_of(model, 0)
        stepper.forget(4, 19)
        shifted = rows_of(model, 0)
        stepper.forget(0)
        stepper.step(tokens[:4] + tokens[19:], 0, [24])
        fresh = rows_of(model, 0)
    np.testing.assert_allclose(shifted, fresh, rtol=1e-4, atol=1e-5)
    assert np.abs(shifted[4:] - before[19:]).max() > 0.1


@pytest.mark.parametrize("name", ["gpt2", "hunyuan_vl"])
def test_a_shift_of_keys_that_cannot_move_computes_again(name: str, tmp_path: Path) -> None:
    row = ROWS[name]
    tokens = golden(row)[0][0].tolist()
    with load(write(row, tmp_path), device="host", kv="f32", ctx=100) as model:
        shifted = Sequenced(model.loaded.stepper)
        for _ in shifted.prefill(tokens, lambda: False):
            pass
        with pytest.raises(NotSupported, match="positions that were learned"):
            model.loaded.built.caches.caches[0].remove(0, 4, 19)
        shifted.shift(4, lambda: False)
        rest = tokens[:4] + tokens[-len(shifted.items) + 4 :]
        assert shifted.items == rest
        assert len(rest) < len(tokens)
        after = shifted.append(7)
        *_, (_, fresh) = model.loaded.stepper.all_logits([*rest, 7])
    assert nmse(after, fresh[-1]) < 1e-10


def test_a_learned_position_for_each_place_of_the_context(tmp_path: Path) -> None:
    path = write(ROWS["gpt2"], tmp_path)
    data = path.read_bytes()
    key = b"gpt2.context_length"
    at = data.index(key) + len(key) + 4
    assert int.from_bytes(data[at : at + 4], "little") == 128
    path.write_bytes(data[:at] + (129).to_bytes(4, "little") + data[at + 4 :])
    with (
        open_gguf(path) as file,
        pytest.raises(BadFile, match=r"position_embd.*a row for each of 129 positions"),
    ):
        build_model(file, None, 16)
