"""Projectors' files: how wide their rows are by their last matrix, and where they are found."""

import json
import os
from importlib import import_module
from pathlib import Path

import pytest

from engine.gguf import open_gguf, projectors
from engine.gguf.values import ValueType
from tests.bounds import at_most_lines
from tests.gguf_files import Blocks, Draft
from tests.goldens.vision.families import PAIR, host_sizes
from tests.goldens.vision.store import load_state

F32, F16, Q8_0 = 0, 1, 8
TYPES = {F32: (4, 1), F16: (2, 1), Q8_0: (34, 32)}


def matrix(kind: int, *shape: int) -> Blocks:
    nbytes, block = TYPES[kind]
    count = 1
    for side in shape:
        count *= side
    return Blocks(kind, shape, bytes(count // block * nbytes))


def put(
    path: Path,
    architecture: str = "clip",
    kind: int = F16,
    tensors: dict[str, Blocks] | None = None,
    **pairs: object,
) -> Path:
    types = {bool: ValueType.BOOL, int: ValueType.UINT32}
    metadata = {"general.architecture": (ValueType.STRING, architecture)}
    metadata |= {f"clip.{key}": (types[type(value)], value) for key, value in pairs.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    return Draft(metadata, tensors or {"mm.0.weight": matrix(kind, 32, 96)}).write(path)


@pytest.mark.parametrize("family", PAIR)
def test_width_of_every_familys_rows(family: str, tmp_path: Path) -> None:
    made = import_module(f"tests.goldens.vision.files.{family}").mmproj(load_state(family))
    with open_gguf(made.write(tmp_path / "mmproj.gguf")) as file:
        assert projectors.is_projector(file)
        assert projectors.width(file) == host_sizes(family).embedding


def width(path: Path) -> int | None:
    with open_gguf(path) as file:
        return projectors.width(file)


def test_width_is_that_of_the_last_matrix(tmp_path: Path) -> None:
    """Old LLaVA's files hold 768 where the width should stand; the bias is no matrix."""
    old = {"mm.0.weight": matrix(F16, 32, 64), "mm.2.weight": matrix(F16, 64, 128)}
    old["mm.2.bias"] = matrix(F32, 128)
    key = "vision.projection_dim"
    assert width(put(tmp_path / "a.gguf", tensors=old, **{key: 768})) == 128
    old["mm.4.weight"] = matrix(F16, 128, 160)
    assert width(put(tmp_path / "b.gguf", tensors=old)) == 160
    turned = {"mm.input_projection.weight": matrix(F16, 96, 32)}
    assert width(put(tmp_path / "c.gguf", tensors=turned)) == 96
    other = {"x.weight": matrix(F32, 32)}
    assert width(put(tmp_path / "d.gguf", tensors=other, **{key: 2048})) == 2048
    assert width(put(tmp_path / "e.gguf", tensors=other)) is None
    assert width(put(tmp_path / "f.gguf", has_vision_encoder=False)) is None
    assert width(put(tmp_path / "g.gguf", has_vision_encoder=True)) == 96


def test_in_the_models_folder_the_header_decides(tmp_path: Path) -> None:
    model = put(tmp_path / "see-4b-Q4_0.gguf", "gemma3")
    put(tmp_path / "see-mmproj-is-a-model.gguf", "gemma3")
    (tmp_path / "mmproj-broken.gguf").write_bytes(b"GGUF")
    assert projectors.beside(model) == []
    rough = put(tmp_path / "mmproj-see-4b-Q8_0.gguf", kind=Q8_0)
    large = put(tmp_path / "mmproj-see-4b-F32.gguf", kind=F32)
    small = put(tmp_path / "tower-of-see-4b.gguf", kind=F16)
    assert projectors.beside(model) == [small, large, rough]
    nearer = put(tmp_path / "see-4b-it-mmproj.gguf", kind=Q8_0)
    assert projectors.beside(tmp_path / "see-4b-it-Q4_0.gguf")[0] == nearer


def test_among_other_models_the_first_word_must_fit(tmp_path: Path) -> None:
    model = put(tmp_path / "gemma-3-4b-Q4_0.gguf", "gemma3")
    plain = put(tmp_path / "mmproj-F16.gguf")
    assert projectors.beside(model) == [plain]
    put(tmp_path / "gemma-3-4b-Q8_0.gguf", "gemma3")
    assert projectors.beside(model) == [plain]
    put(tmp_path / "qwen2-2b.gguf", "qwen2")
    assert projectors.beside(model) == []
    named = put(tmp_path / "mmproj-gemma-3-4b.gguf")
    assert projectors.beside(model) == [named]
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "gemma-3-4b.gguf").symlink_to(model)
    assert projectors.beside(tmp_path / "elsewhere" / "gemma-3-4b.gguf") == [named]
    assert projectors.beside(tmp_path / "nowhere" / "m.gguf") == []


def test_headers_of_a_folders_models_are_not_read_whole(tmp_path: Path) -> None:
    """With many models whose vocabularies are large that took longer than the model's own."""
    words = (ValueType.ARRAY, (ValueType.STRING, ["word"] * 20_000))
    pairs = {"general.architecture": (ValueType.STRING, "llama"), "toy.words": words}
    models = [Draft(pairs, {}).write(tmp_path / f"m-{i}.gguf") for i in range(3)]
    plain = put(tmp_path / "mmproj-F16.gguf")
    with at_most_lines(10_000):
        assert projectors.beside(models[0]) == [plain]


def test_in_another_revision_of_the_repository(tmp_path: Path) -> None:
    snapshots = tmp_path / "models--org--see" / "snapshots"
    blobs = tmp_path / "models--org--see" / "blobs"

    def link(at: str, architecture: str) -> Path:
        blob = put(blobs / f"{abs(hash(at)):064x}", architecture)
        path = snapshots / at
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.relpath(blob, path.parent))
        return path

    model = link("new/Q4_0/see-Q4_0.gguf", "llama")
    old = link("old/mmproj-see-F16.gguf", "clip")
    assert projectors.beside(model) == [old]
    new = link("new/mmproj-see-F16.gguf", "clip")
    assert projectors.beside(model) == [new, old]
    link("new/other.gguf", "llama")
    assert projectors.beside(snapshots / "new" / "see-Q8_0.gguf") == [new, old]


def test_in_a_manifest_of_ollama(tmp_path: Path) -> None:
    kinds = "application/vnd.ollama.image."

    def manifest(name: str, *layers: tuple[str, str]) -> None:
        entries = [{"mediaType": kinds + kind, "digest": digest} for kind, digest in layers]
        path = tmp_path / "manifests" / "registry.ollama.ai" / "library" / name / "latest"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"layers": entries}))

    model = put(tmp_path / "blobs" / "sha256-aa", "llama")
    tower = put(tmp_path / "blobs" / "sha256-bb")
    put(tmp_path / "blobs" / "sha256-cc")
    manifest("broken", ("model", "sha256:aa"))
    (tmp_path / "manifests/registry.ollama.ai/library/broken/latest").write_text("[1]")
    manifest("other", ("model", "sha256:dd"), ("projector", "sha256:cc"))
    assert projectors.beside(model) == []
    put(tmp_path / "outside.gguf")
    manifest(
        *("see", ("model", "sha256:aa"), ("projector", "sha256:bb")),
        ("projector", "../outside.gguf"),
    )
    assert projectors.beside(model) == [tower]
