"""What is no model that runs here is refused with what it is."""

from pathlib import Path

import pytest

from engine.errors import BadFile, UnsupportedModel
from engine.gguf import open_gguf
from engine.gguf.values import ValueType
from engine.models.build import FIRST_EXPERT, KINDS, build_model, supported
from tests.engine.models.text.files import write
from tests.engine.models.text.rows import ROWS
from tests.gguf_files import Blocks, Draft, drafted


def refusal(path: Path, **metadata: str) -> str:
    pairs = {"general.architecture": "llama", **metadata}
    Draft({key: (ValueType.STRING, value) for key, value in pairs.items()}).write(path)
    with open_gguf(path) as file, pytest.raises(UnsupportedModel) as caught:
        build_model(file, None, 1)
    return str(caught.value)


@pytest.mark.parametrize(
    ("arch", "what"),
    [
        ("llada-moe", "a diffusion language model"),
        ("qwen3tts", "a model of speech"),
        ("eagle3", "a draft model for speculative decoding"),
        ("kimi-k3", "a model whose states decay by channel"),
        ("hy_v4", "a server-size model"),
        ("clip", "an image projector; open the language model in the same folder"),
    ],
)
def test_kinds_that_do_not_run(arch: str, what: str, tmp_path: Path) -> None:
    said = refusal(tmp_path / "m.gguf", **{"general.architecture": arch})
    assert said.startswith(f"architecture '{arch}' is not supported ({what}")
    assert said.endswith(f"supported: {', '.join(supported())}")


def test_a_name_that_nobody_knows(tmp_path: Path) -> None:
    said = refusal(tmp_path / "m.gguf", **{"general.architecture": "mystery"})
    assert said == f"architecture 'mystery' is not supported; supported: {', '.join(supported())}"


def test_an_adapter_is_no_model(tmp_path: Path) -> None:
    said = refusal(tmp_path / "m.gguf", **{"general.type": "adapter", "adapter.type": "lora"})
    assert said.startswith("adapter 'lora' is not supported (a LoRA adapter; open its model")


def test_nothing_that_opens_is_called_one_that_does_not() -> None:
    assert not KINDS.keys() & set(supported())


def test_experts_in_tensors_of_their_own(tmp_path: Path) -> None:
    path, tensors = tmp_path / "m.gguf", {FIRST_EXPERT: Blocks(0, (8, 4), bytes(128))}
    Draft({"general.architecture": (ValueType.STRING, "llama")}, tensors).write(path)
    with open_gguf(path) as file, pytest.raises(UnsupportedModel) as caught:
        build_model(file, None, 1)
    assert "before April 2024; convert or download the model again" in str(caught.value)


def test_scores_that_fall_with_the_distance(tmp_path: Path) -> None:
    """As in Falcon RW: of an architecture of which no such models are known."""
    arch, said = "falcon", "max_alibi_bias is 8"
    floats = {"layer_norm_epsilon": 1e-5, "max_alibi_bias": 8.0}
    path, sizes = tmp_path / "m.gguf", ("block_count", "context_length", "embedding_length")
    counts = {f"{arch}.{key}": (ValueType.UINT32, 40) for key in (*sizes, "attention.head_count")}
    more = {f"{arch}.attention.{key}": (ValueType.FLOAT32, x) for key, x in floats.items()}
    Draft({"general.architecture": (ValueType.STRING, arch), **counts, **more}).write(path)
    with open_gguf(path) as file, pytest.raises(BadFile, match=rf"{said}: .*\(ALiBi\)"):
        build_model(file, None, 1)


def test_a_block_that_predicts_alone(tmp_path: Path) -> None:
    """As files that go beside a model have it: Qwen3.6's `mtp-*.gguf`."""
    with open_gguf(write(ROWS["qwen35"], tmp_path)) as file:
        draft = drafted(file)
    n = draft.pairs["qwen35.block_count"][1]
    draft.pairs["qwen35.block_count"] = (ValueType.UINT32, n + 1)
    draft.pairs["qwen35.nextn_predict_layers"] = (ValueType.UINT32, 1)
    last = f"blk.{n - 1}."
    kept = {name: t for name, t in draft.tensors.items() if name.startswith((last, "o", "t"))}
    draft.tensors = {name.replace(last, f"blk.{n}."): t for name, t in kept.items()}
    path = draft.write(tmp_path / "mtp.gguf")
    with open_gguf(path) as file, pytest.raises(BadFile, match="none of the model's; open"):
        build_model(file, None, 1)
