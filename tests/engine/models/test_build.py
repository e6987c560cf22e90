"""Binding and graphs of the real files: names, counts, tied weights; strictness on tiny ones."""

from collections import Counter
from pathlib import Path

import gguf
import pytest

from engine.errors import BadFile, UnsupportedModel
from engine.gguf import open_gguf
from engine.graph.op import Op
from engine.models.build import StepShape, build_model, find, supported
from engine.weights.load import matmul_only
from tests.engine.models.text.encoders import ENCODERS
from tests.engine.models.text.rows import ROW_ARCHITECTURES
from tests.goldens.tiny import ARCHITECTURES, write_tiny
from tests.goldens.vision.families import TEXTS


@pytest.mark.model_file
def test_smollm2_makes_the_known_graph(smollm2_path: Path) -> None:
    with open_gguf(smollm2_path) as file:
        built = build_model(file, None, 512)
        _, graph = built.build(StepShape(1, 1, (256,)))
        counts = Counter(node.op for node in graph.nodes)
    assert counts[Op.MATMUL] == 211
    assert counts[Op.RMS_NORM] == 61
    assert counts[Op.ROPE] == 60
    assert counts[Op.ADD] == 60
    assert counts[Op.ATTENTION] == counts[Op.SILU] == 30
    assert graph.outputs[0].dims == (49152,)
    assert built.n_ctx == 4096
    only = {tensor.name for tensor in matmul_only(graph)}
    assert "output.weight" in only
    assert "token_embd.weight" not in only
    assert "blk.0.attn_norm.weight" not in only


@pytest.mark.model_file
def test_gemma_keeps_a_window_and_a_full_cache(gemma3_path: Path) -> None:
    with open_gguf(gemma3_path) as file:
        built = build_model(file, 8192, 512)
        tied = [t.name for t, source in built.sources.items() if source == "token_embd.weight"]
    assert [(c.window, c.n_cells) for c in built.caches.caches] == [(512, 1024), (None, 8192)]
    assert [layer.cache for layer in built.layers[:7]] == [0, 0, 0, 0, 0, 1, 0]
    assert sorted(tied) == ["output.weight", "token_embd.weight"]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_names_are_the_fields_standard_ones(arch: str, tmp_path: Path) -> None:
    """Every tensor that the model binds is one the `gguf` package knows for the architecture."""
    number = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch)
    known = {gguf.TENSOR_NAMES[t] for t in gguf.MODEL_TENSORS[number]}
    with open_gguf(write_tiny(tmp_path / "tiny.gguf", arch)) as file:
        names = build_model(file, 64, 16).sources.values()
    for name in names:
        parts = name.rsplit(".", 1)[0].split(".")
        pattern = ".".join(["blk", "{bid}", *parts[2:]] if parts[0] == "blk" else parts)
        assert pattern in known


def test_a_wrong_shape_is_one_line(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", "llama")
    with open_gguf(path) as file:
        wrong = dict(file.tensors)
        wrong["blk.0.attn_q.weight"] = wrong["blk.0.ffn_down.weight"]
        file.tensors = wrong  # type: ignore[misc]
        with pytest.raises(BadFile) as caught:
            build_model(file, 64, 16)
    assert "blk.0.attn_q.weight" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_architecture_lists_what_there_is() -> None:
    encoders = {"nomic-bert-moe", "t5", *(row.architecture for row in ENCODERS)}
    tested = {*ARCHITECTURES, *TEXTS, *ROW_ARCHITECTURES, *encoders}
    assert set(supported()) == tested
    with pytest.raises(UnsupportedModel, match=r"heron.*gemma3.*llama"):
        find("heron")
    with pytest.raises(UnsupportedModel):
        find("build")
