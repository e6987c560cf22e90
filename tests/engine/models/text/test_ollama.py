"""Files as Ollama writes them: the same logits as of llama.cpp's, for rows of the table."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.gguf import open_gguf
from engine.gguf.values import ValueType as V
from engine.runner import load
from tests.engine.models.text.files import golden, write
from tests.engine.models.text.rows import ROWS
from tests.gguf_files import Blocks, Draft, drafted
from tests.truth.compare import nmse


def spelt(
    draft: Draft,
    arch: str,
    keys: dict[str, str],
    tensors: dict[str, str],
    gone: tuple[str, ...] = (),
) -> Draft:
    """With another architecture, and keys and parts of tensors' names by another name."""
    _, old = draft.pairs["general.architecture"]
    own, pairs = old.decode() + ".", {}
    for key, pair in draft.pairs.items():
        rest = key.removeprefix(own)
        pairs[f"{arch}.{keys.get(rest, rest)}" if key.startswith(own) else key] = pair
    pairs["general.architecture"] = (V.STRING, arch.encode())
    draft.pairs = pairs

    def renamed(name: str) -> str:
        for before, after in tensors.items():
            name = re.sub(before, after, name)
        return name

    draft.tensors = {renamed(name): blocks for name, blocks in draft.tensors.items()}
    return draft


def olmo3(draft: Draft) -> Draft:
    return spelt(draft, "olmo3", {}, {})


def gemma3(draft: Draft) -> Draft:
    keys = {"rope.freq_base": "rope.global.freq_base", "rope.freq_base_swa": "rope.local.freq_base"}
    draft.pairs.setdefault("gemma3.rope.freq_base_swa", (V.FLOAT32, 10000.0))
    return spelt(draft, "gemma3", keys, {})


def gemma4(draft: Draft) -> Draft:
    scale = {r"ffn_down_exps\.scale": "ffn_gate_inp.per_expert_scale"}
    return spelt(draft, "gemma4", {}, scale)


def nemotron(draft: Draft) -> Draft:
    names = {"ffn_latent_down": "ffn_latent_in", "ffn_latent_up": "ffn_latent_out"}
    return spelt(draft, "nemotron_h_moe", {}, names)


def qwen35(draft: Draft) -> Draft:
    """Heads of values with neighbours of the same head of keys, and no suffix of a bias."""
    count = {k: draft.pairs[f"qwen35.ssm.{k}"][1] for k in ("group_count", "time_step_rank")}
    hk, hv = count["group_count"], count["time_step_rank"]
    order = np.arange(hv).reshape(hv // hk, hk).T.reshape(-1)  # of the new heads
    size = draft.pairs["qwen35.ssm.inner_size"][1] // hv
    keys = 2 * hk * draft.pairs["qwen35.ssm.state_size"][1]
    wide = (order[:, None] * size + np.arange(size)).reshape(-1)
    rows = {"attn_gate": wide, "ssm_beta": order, "ssm_alpha": order, "ssm_a": order}
    behind = np.concatenate([np.arange(keys), keys + wide])
    rows |= {"attn_qkv": behind, "ssm_conv1d": behind, "ssm_dt": order}
    for name, blocks in draft.tensors.items():
        part = name.split(".")[2] if name.startswith("blk.") else ""
        values = np.frombuffer(blocks.data, np.float32).reshape(blocks.dims[::-1])
        if part in rows:
            values = values[rows[part]]
        elif part == "ssm_out":
            values = values[:, wide]
        draft.tensors[name] = Blocks(blocks.type_id, blocks.dims, values.tobytes())
    return spelt(draft, "qwen35", {}, {r"ssm_dt\.bias": "ssm_dt"})


@pytest.mark.parametrize(
    ("row", "change"),
    [
        ("olmo3", olmo3),
        ("gemma3", gemma3),
        ("gemma4-moe", gemma4),
        ("nemotron_h_latent", nemotron),
        ("qwen35", qwen35),
    ],
)
def test_logits_of_ollamas_spelling(
    row: str, change: Callable[[Draft], Draft], tmp_path: Path
) -> None:
    with open_gguf(write(ROWS[row], tmp_path)) as file:
        draft = drafted(file)
    before = set(draft.tensors) | set(draft.pairs)
    path = change(draft).write(tmp_path / "ollama.gguf")
    assert {*draft.tensors, *draft.pairs} != before
    ids, want = golden(ROWS[row])
    with load(path, device="host", kv="f32", ctx=128) as model:
        logits = model.loaded.stepper.step(ids[0].tolist(), 0, range(96))
        assert nmse(logits, want[0]) < 1e-10


def test_what_ollama_knows_by_heart(tmp_path: Path) -> None:
    """Gemma 3 of 34 blocks stretches by 8; of fewer not. gpt-oss is scaled by YaRN."""
    for blocks, factor in ((34, 8.0), (26, None)):
        path = Draft({
            "general.architecture": (V.STRING, "gemma3"),
            "gemma3.block_count": (V.UINT32, blocks),
            "gemma3.rope.local.freq_base": (V.FLOAT32, 1e4),
        }).write(tmp_path / "m.gguf")  # fmt: skip
        with open_gguf(path) as file:
            assert file.metadata.get("rope.scaling.factor", float, None) == factor
            assert file.metadata.get("rope.freq_base_swa", float) == 1e4
    path = Draft({
        "general.architecture": (V.STRING, "gptoss"),
        "gptoss.rope.scaling.factor": (V.FLOAT32, 32.0),
        "tokenizer.ggml.pre": (V.STRING, "default"),
    }, {
        "blk.0.attn_out.weight": Blocks(0, (1,), bytes(4)),
        "blk.0.ffn_norm.weight": Blocks(0, (1,), bytes(4)),
    }).write(tmp_path / "g.gguf")  # fmt: skip
    with open_gguf(path) as file:
        assert file.metadata.architecture == "gpt-oss"
        assert file.metadata.get("rope.scaling.type", str) == "yarn"
        assert file.metadata.get("rope.scaling.factor", float) == 32.0
        assert file.metadata.get("tokenizer.ggml.pre", str) == "gpt-4o"
        names = {"blk.0.attn_output.weight", "blk.0.post_attention_norm.weight"}
        assert set(file.tensors) == names
        assert file.array("blk.0.attn_output.weight").tolist() == [0.0]


def test_embedding_gemma_is_no_gemma3(tmp_path: Path) -> None:
    dense = {f"dense.{i}.weight": Blocks(0, (1,), bytes(4)) for i in (0, 1)}
    pairs = {
        "general.architecture": (V.STRING, "gemma3"),
        "gemma3.embedding_length": (V.UINT32, 768),
        "gemma3.rope.global.freq_base": (V.FLOAT32, 1e6),
    }
    with open_gguf(Draft(pairs, dense).write(tmp_path / "e.gguf")) as file:
        assert file.metadata.architecture == "gemma-embedding"
        assert file.metadata.get("embedding_length", int) == 768
        assert file.metadata.get("rope.freq_base", float) == 1e6
        assert set(file.tensors) == {"dense_2.weight", "dense_3.weight"}
