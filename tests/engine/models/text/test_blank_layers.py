"""Layers without tensors, which Nemotron Ultra has: only where the file's numbers say so too."""

from pathlib import Path

import pytest

from engine.errors import BadFile
from engine.gguf import open_gguf
from engine.models.build import build_model
from tests.engine.models.text.files import write
from tests.engine.models.text.rows import ROWS
from tests.gguf_files import Draft, drafted


def refusal(draft: Draft, folder: Path) -> str:
    with open_gguf(draft.write(folder / "made.gguf")) as file, pytest.raises(BadFile) as caught:
        build_model(file, 64, 16)
    return str(caught.value)


def draft_of(row: str, folder: Path) -> Draft:
    with open_gguf(write(ROWS[row], folder)) as file:
        return drafted(file)


@pytest.mark.parametrize("layer", [0, 2])
def test_a_layer_whose_tensors_are_lost(layer: int, tmp_path: Path) -> None:
    """One that attends, and one with a feed-forward alone."""
    draft = draft_of("deci-blank", tmp_path)
    lost = f"blk.{layer}."
    draft.tensors = {n: t for n, t in draft.tensors.items() if not n.startswith(lost)}
    said = refusal(draft, tmp_path)
    assert f"layer {layer} has no tensors, and feed_forward_length is 96" in said


def test_a_layer_of_a_great_number(tmp_path: Path) -> None:
    """No layer is made for each number before it."""
    draft = draft_of("deci", tmp_path)
    draft.tensors = {n.replace("blk.3.", "blk.99999999."): t for n, t in draft.tensors.items()}
    assert "block_count is 4 but the tensors make 65537 blocks" in refusal(draft, tmp_path)


def test_a_blank_layer_has_a_result(tmp_path: Path) -> None:
    with open_gguf(write(ROWS["deci-blank"], tmp_path)) as file:
        names = {node.name for node in build_model(file, 64, 16).one_token.nodes}
    assert {f"l_out-{i}" for i in range(4)} <= names
