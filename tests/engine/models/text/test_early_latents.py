"""Files of DeepSeek-V2 and V3 from before 2025: keys and values of each head are kept.

The rows' files are written again as the converters of that time did, which had one matrix that
makes both of a latent (`attn_kv_b`), and lengths of whole heads.
"""

from pathlib import Path

import numpy as np
import pytest

from engine.errors import BadFile
from engine.gguf import open_gguf
from engine.gguf.values import ValueType
from engine.models.build import build_model
from engine.runner import load
from tests.engine.models.text.files import golden, write
from tests.engine.models.text.rows import ROWS
from tests.engine.runner.memory import drivers
from tests.gguf_files import Blocks, Draft, drafted
from tests.truth.compare import nmse

HEADS, LATENT, PLAIN, TURNED, VALUE = 4, 16, 8, 8, 12
NAMES = ("deepseek_v2", "deepseek_v3")
"""Whole queries without YaRN, and queries of low rank with it."""


def early(name: str, folder: Path) -> Draft:
    with open_gguf(write(ROWS[name], folder)) as file:
        draft = drafted(file)
    pairs = draft.pairs
    for key in ("key_length_mla", "value_length_mla"):
        del pairs[f"deepseek2.attention.{key}"]
    for key, number in (
        ("head_count_kv", HEADS),
        ("key_length", PLAIN + TURNED),
        ("value_length", VALUE),
    ):
        pairs[f"deepseek2.attention.{key}"] = (ValueType.UINT32, number)
    for i in range(3):
        k_b, v_b = (draft.tensors.pop(f"blk.{i}.attn_{x}_b.weight").data for x in "kv")
        keys = np.frombuffer(k_b, "<f4").reshape(HEADS, LATENT, PLAIN).swapaxes(1, 2)
        values = np.frombuffer(v_b, "<f4").reshape(HEADS, VALUE, LATENT)
        both = np.concatenate([keys, values], 1).tobytes()
        draft.tensors[f"blk.{i}.attn_kv_b.weight"] = Blocks(
            0, (LATENT, HEADS * (PLAIN + VALUE)), both
        )
    return draft


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_latents(name: str, tmp_path: Path) -> None:
    ids, want = golden(ROWS[name])
    path = early(name, tmp_path).write(tmp_path / "early.gguf")
    with load(path, device="host", kv="f32", ctx=128) as model:
        stepper = model.loaded.stepper
        whole = stepper.step(ids[0].tolist(), 0, range(96)).copy()
        stepper.forget(0)
        stepper.step(ids[0, :65].tolist(), 0, range(65))
        rest = stepper.step(ids[0, 65:].tolist(), 65, range(31)).copy()
    assert nmse(whole, want[0]) < 1e-10
    assert nmse(rest, want[0, 65:]) < 1e-10


@pytest.mark.parametrize("device", drivers())
def test_a_device_computes_them(device: str, tmp_path: Path) -> None:
    ids, want = golden(ROWS["deepseek_v3"])
    path = early("deepseek_v3", tmp_path).write(tmp_path / "early.gguf")
    with load(path, device=device, ctx=128) as model:
        found = model.loaded.stepper.step(ids[0].tolist(), 0, range(96))
        assert nmse(found, want[0]) < 1e-4


@pytest.mark.parametrize(
    ("key", "number", "said"),
    [
        ("head_count_kv", 1, "head_count_kv 1 is not head_count 4, and there is no"),
        ("key_length", 8, "dimension_count 8 does not go with key_length 8"),
        ("key_length_mla", 16, "head_count_kv is not 1"),
    ],
)
def test_lengths_that_do_not_go_together(key: str, number: int, said: str, tmp_path: Path) -> None:
    draft = early("deepseek_v2", tmp_path)
    draft.pairs[f"deepseek2.attention.{key}"] = (ValueType.UINT32, number)
    with (
        open_gguf(draft.write(tmp_path / "early.gguf")) as file,
        pytest.raises(BadFile, match=said),
    ):
        build_model(file, 64, 16)
