"""Models by name, and the list of them."""

import os
from pathlib import Path

import pytest

from app.library import list_models, resolve
from engine.errors import BadFile, ModelNotFound
from engine.gguf.values import ValueType
from tests.gguf_files import Blocks, Draft, split

F32, F16 = 0, 1


def draft(architecture: str = "llama", file_type: int | None = None) -> Draft:
    """Four tensors, three quarters of the bytes in F16."""
    pairs = {"general.architecture": (ValueType.STRING, architecture)}
    if file_type is not None:
        pairs["general.file_type"] = (ValueType.UINT32, file_type)
    tensors = {f"blk.{i}.x.weight": Blocks(F16, (32, 2), bytes(128)) for i in range(3)}
    tensors["y.weight"] = Blocks(F32, (32,), bytes(128))
    return Draft(pairs, tensors)


def put(path: Path, architecture: str = "llama", file_type: int | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return draft(architecture, file_type).write(path)


@pytest.fixture
def own(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of CUTAWAY_MODELS."""
    folder = own_home / "models"
    folder.mkdir()
    monkeypatch.setenv("CUTAWAY_MODELS", str(folder))
    return folder


def cached(home: Path, repo: str, revision: str, ref: str | None, *files: str) -> Path:
    """A repository in the Hugging Face cache as its documentation lays it out."""
    root = home / "hf" / "hub" / f"models--{repo.replace('/', '--')}"
    snapshot = root / "snapshots" / revision
    for file in files:
        blob = put(root / "blobs" / f"{abs(hash((revision, file))):064x}")
        link = snapshot / file
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    if ref:
        (root / "refs").mkdir(exist_ok=True)
        (root / "refs" / ref).write_text(revision)
    return snapshot


OLD, NEW = "a" * 40, "b" * 40


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_home: Path) -> None:
    file = put(tmp_path / "some model.gguf")
    assert resolve(file) == resolve(str(file)) == file
    monkeypatch.chdir(tmp_path)
    assert resolve("some model.gguf") == Path("some model.gguf")
    put(own_home / "m.gguf")
    assert resolve("~/m.gguf") == own_home / "m.gguf"
    with pytest.raises(BadFile, match="is a folder"):
        resolve(tmp_path)
    for missing in (tmp_path / "no", "./no.gguf", "~nobody-of-this-name/no.gguf"):
        with pytest.raises(BadFile, match="no such file"):
            resolve(missing)


def test_stored_names(own: Path) -> None:
    first = put(own / "SmolLM2-135M-Instruct.Q4_1.gguf")
    second = put(own / "sub" / "Other.Q8_0.gguf")
    assert resolve("smollm2-135m") == first
    assert resolve("smollm2-135m-instruct.q4_1") == first
    assert resolve("SmolLM2-135M-Instruct.Q4_1.gguf") == first
    assert resolve("other.Q8_0") == resolve("sub/Other.Q8_0") == second


def test_the_folder_of_the_environment_wins(own: Path, own_home: Path) -> None:
    later = put(own_home / "data" / "cutaway" / "models" / "a.gguf")
    assert resolve("a") == later
    first = put(own / "a.gguf")
    assert resolve("a") == first


def test_a_folder_of_the_models_name_does_not_hide_it(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(own / "a.gguf")
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve("a") == file


def test_several_of_one_name(own: Path) -> None:
    put(own / "x" / "a.gguf")
    put(own / "y" / "a.gguf")
    with pytest.raises(ModelNotFound, match=r"several.*x/a\.gguf.*y/a\.gguf"):
        resolve("a")
    assert resolve("y/a") == own / "y" / "a.gguf"


def test_unknown_names_say_what_to_do(own: Path) -> None:
    put(own / "my-model.gguf")
    with pytest.raises(ModelNotFound, match=r"did you mean my-model\?") as caught:
        resolve("my-modle")
    assert str(own) in str(caught.value)
    with pytest.raises(ModelNotFound, match="`cutaway get gemma3-270m`"):
        resolve("gemma3-270m")
    with pytest.raises(ModelNotFound, match="`cutaway get some/repo:Q4_0`"):
        resolve("some/repo:Q4_0")
    with pytest.raises(ModelNotFound, match="fetches smollm2-135m, gemma3-270m or any"):
        resolve("qqq")


def test_repositories_of_the_cache(own_home: Path) -> None:
    root = cached(own_home, "org/repo", NEW, "main", "m-Q4_K_M.gguf", "sub/m.IQ2_XS.gguf")
    cached(own_home, "org/one", NEW, None, "m.gguf", "mmproj-m-F16.gguf")
    assert resolve("org/repo:Q4_K_M") == resolve("Org/Repo:q4_k_m") == root / "m-Q4_K_M.gguf"
    assert resolve("org/repo:IQ2_XS") == root / "sub" / "m.IQ2_XS.gguf"
    assert resolve("org/one").name == "m.gguf"
    assert resolve("org/one:mmproj-m-F16").name == "mmproj-m-F16.gguf"
    with pytest.raises(ModelNotFound, match=r"several.*Q4_K_M.*IQ2_XS"):
        resolve("org/repo")
    with pytest.raises(ModelNotFound, match="fetch it with `cutaway get org/repo:Q8_0`"):
        resolve("org/repo:Q8_0")


def test_newest_revision_first_older_ones_too(own_home: Path) -> None:
    new = cached(own_home, "org/repo", NEW, "main", "m-Q4_0.gguf")
    old = cached(own_home, "org/repo", OLD, None, "m-Q4_0.gguf", "m-Q8_0.gguf")
    assert resolve("org/repo:Q4_0") == new / "m-Q4_0.gguf"
    assert resolve("org/repo:Q8_0") == old / "m-Q8_0.gguf"
    listed = {model.name: model.paths for model in list_models()}
    assert listed == {
        "org/repo:Q4_0": (new / "m-Q4_0.gguf",),
        "org/repo:Q8_0": (old / "m-Q8_0.gguf",),
    }


def test_repository_in_our_own_folder(own: Path) -> None:
    file = put(own / "org" / "repo" / "m-Q4_0.gguf")
    put(own / "org" / "repo" / "m-Q8_0.gguf")
    assert resolve("org/repo:Q4_0") == file


def test_list(own: Path, own_home: Path) -> None:
    put(own / "SmolLM2-135M-Instruct.Q4_1.gguf", file_type=3)
    put(own / "plain.gguf", architecture="gemma3")
    put(own / "mmproj-plain.gguf", architecture="clip")
    (own / "broken.gguf").write_bytes(b"GGUF\x03")
    (own / "notes.txt").write_text("not a model")
    cached(own_home, "org/repo", NEW, "main", "m-Q4_0.gguf", "README.md")
    listed = {model.name: model for model in list_models()}
    assert sorted(listed) == ["broken", "mmproj-plain", "org/repo:Q4_0", "plain", "smollm2-135m"]
    smollm2, plain = listed["smollm2-135m"], listed["plain"]
    assert (smollm2.architecture, smollm2.quantization, smollm2.origin) == ("llama", "Q4_1", "own")
    assert (plain.architecture, plain.quantization, plain.problem) == ("gemma3", "F16", None)
    assert plain.size == (own / "plain.gguf").stat().st_size
    assert [m.name for m in listed.values() if m.is_projector] == ["mmproj-plain"]
    assert listed["org/repo:Q4_0"].origin == "hugging face"
    assert listed["broken"].architecture is None
    assert "broken.gguf" in str(listed["broken"].problem)
    for model in listed.values():
        assert resolve(model.name) == model.paths[0]


def test_splits_are_one_model(own: Path) -> None:
    (own / "in").mkdir()
    parts = split(draft(), own / "in" / "big-Q4_K_M.gguf", 3)
    (model,) = list_models()
    assert (model.name, model.paths) == ("in/big-Q4_K_M", tuple(parts))
    assert model.size == sum(p.stat().st_size for p in parts)
    assert (model.quantization, model.problem) == ("F16", None)
    assert resolve("big-Q4_K_M") == parts[0]
    parts[1].unlink()
    (model,) = list_models()
    assert model.problem == "1 of 3 splits are missing"


def test_a_file_with_two_names_is_listed_once(own: Path, own_home: Path) -> None:
    file = put(own / "a.gguf")
    (own / "b.gguf").hardlink_to(file)
    (own / "c.gguf").symlink_to(file)
    (own / "dangling.gguf").symlink_to(own / "nowhere")
    assert len(list_models()) == 1


def test_an_empty_machine(own_home: Path) -> None:
    assert list_models() == []
