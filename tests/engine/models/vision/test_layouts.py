"""Ways in which files say the same: each makes the tower that the usual file makes, to the bit."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.errors import BadFile
from engine.gguf import open_gguf
from engine.models.vision.build import build_tower, has_tower, kind_of
from tests.engine.models.vision.running import host_of, running
from tests.engine.models.vision.test_goldens import KNOWN
from tests.goldens.tiny import Draws, write_tiny
from tests.goldens.vision.families import host_sizes
from tests.goldens.vision.files import gemma3, internvl, llava, qwen25vl
from tests.goldens.vision.layout import File
from tests.goldens.vision.store import load_cases, load_state
from tests.truth.compare import nmse

Tensors = Mapping[str, np.ndarray]
MADE = {"gemma3": gemma3, "internvl": internvl, "llava": llava, "qwen25vl": qwen25vl}


def mmproj(family: str) -> File:
    made: File = MADE[family].mmproj(load_state(family))
    return made


def rows(family: str, file: File, path: Path) -> np.ndarray:
    """Of the first view of the first case."""
    sizes = host_sizes(family)
    view = next(iter(load_cases(family).values())).seen[0].views[0]
    with running(file.write(path), host_of(KNOWN[family], sizes.embedding, sizes.eps)) as tower:
        return tower.rows(view)


def renamed(tensors: Tensors, **names: str) -> Tensors:
    """Parts of names between dots by what they become."""
    return {".".join(names.get(p, p) for p in name.split(".")): t for name, t in tensors.items()}


def joined(tensors: Tensors) -> Tensors:
    """Queries, keys and values as one matrix."""
    made = {}
    for name, values in tensors.items():
        if "attn_q." in name:
            parts = [tensors[name.replace("attn_q.", f"attn_{part}.")] for part in "qkv"]
            made[name.replace("attn_q.", "attn_qkv.")] = np.concatenate(parts)
        elif "attn_k." not in name and "attn_v." not in name:
            made[name] = values
    return made


@pytest.mark.parametrize(
    ("family", "change"),
    [
        # Old converters gave the two matrices of a feed-forward each other's name.
        ("internvl", lambda t: renamed(t, ffn_up="ffn_down", ffn_down="ffn_up")),
        ("llava", lambda t: renamed(t, ffn_up="ffn_down", ffn_down="ffn_up")),
        # Llama 4's converter calls the second norm so.
        ("gemma3", lambda t: renamed(t, ln2="attn_post_norm")),
        ("llava", lambda t: renamed(t, ln1="attn_norm", attn_out="attn_output")),
        # What hears is not read.
        ("gemma3", lambda t: {**t, "a.blk.0.ln1.weight": np.ones(8), "mm.a.mlp.0": np.ones(8)}),
    ],
)
def test_other_names(family: str, change: Callable[[Tensors], Tensors], tmp_path: Path) -> None:
    usual = mmproj(family)
    other = replace(usual, tensors=change(usual.tensors))
    shapes = [{n: t.shape for n, t in made.tensors.items()} for made in (usual, other)]
    assert shapes[0] != shapes[1]
    wanted = rows(family, usual, tmp_path / "usual.gguf")
    assert np.array_equal(rows(family, other, tmp_path / "other.gguf"), wanted)


@pytest.mark.parametrize("family", ["gemma3", "qwen25vl"])
def test_queries_keys_and_values_may_be_one_matrix(family: str, tmp_path: Path) -> None:
    usual = mmproj(family)
    other = replace(usual, tensors=joined(usual.tensors))
    wanted = rows(family, usual, tmp_path / "usual.gguf")
    assert nmse(rows(family, other, tmp_path / "other.gguf"), wanted) < 1e-12


@pytest.mark.parametrize(
    ("family", "without", "more"),
    [
        ("llava", "clip.projector_type", {}),  # has_llava_projector says it
        ("gemma3", "clip.projector_type", {"clip.vision.projector_type": "gemma3"}),
        ("gemma3", "clip.vision.image_mean", {}),
        ("gemma3", "clip.has_vision_encoder", {}),
    ],
)
def test_other_keys(family: str, without: str, more: dict[str, str], tmp_path: Path) -> None:
    usual = mmproj(family)
    metadata = {key: value for key, value in usual.metadata.items() if key != without}
    assert len(metadata) < len(usual.metadata)
    other = replace(usual, metadata=metadata | more)
    wanted = rows(family, usual, tmp_path / "usual.gguf")
    assert np.array_equal(rows(family, other, tmp_path / "other.gguf"), wanted)


def test_a_file_without_a_kind_is_told(tmp_path: Path) -> None:
    usual = mmproj("gemma3")
    keys = {k: v for k, v in usual.metadata.items() if k != "clip.projector_type"}
    path = replace(usual, metadata=keys).write(tmp_path / "odd.gguf")
    words = r"has no 'clip\.projector_type'; expected the projector"
    with open_gguf(path) as file, pytest.raises(BadFile, match=words):
        build_tower(file, host_of("gemma3", 64))


def test_layers_of_features_are_taken_side_by_side(tmp_path: Path) -> None:
    """Of the last block alone they are what the file without the key gives; two make wider rows."""
    usual = mmproj("llava")
    last = {**usual.metadata, "clip.vision.feature_layer": [2]}
    wanted = rows("llava", usual, tmp_path / "usual.gguf")
    again = rows("llava", replace(usual, metadata=last), tmp_path / "last.gguf")
    assert np.array_equal(again, wanted)

    width = usual.tensors["mm.0.weight"].shape[1]
    first, second = Draws(4).matrix(2 * width, width).astype(np.float32).reshape(2, width, width)
    one = {**usual.metadata, "clip.vision.feature_layer": [1]}
    both = {**usual.metadata, "clip.vision.feature_layer": [1, 2]}

    def hidden(metadata: Mapping[str, object], weight: np.ndarray, name: str) -> np.ndarray:
        """Rows where the projector's first matrix is `weight`, and nothing bends them."""
        bias = np.full(len(weight), 1e3, np.float32)  # GELU(x) = x up there
        tensors = usual.tensors | {"mm.0.weight": weight, "mm.0.bias": bias}
        return rows("llava", replace(usual, metadata=metadata, tensors=tensors), tmp_path / name)

    together = hidden(both, np.hstack([first, second]), "both.gguf")
    parts = hidden(one, first, "one.gguf") + hidden(last, second, "two.gguf")
    bias = hidden(last, np.zeros_like(second), "none.gguf")
    assert nmse(together, parts - bias) < 1e-6


def test_a_text_model_without_a_tower_has_none(tmp_path: Path) -> None:
    with open_gguf(write_tiny(tmp_path / "tiny.gguf", "gemma3")) as file:
        assert not has_tower(file)
        assert kind_of(file) == "gemma3"
    with open_gguf(mmproj("gemma3").write(tmp_path / "mmproj.gguf")) as file:
        assert has_tower(file)
