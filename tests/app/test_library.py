"""Models by name, and the list of them."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.headers import check_model
from app.library import first_usable, list_models, resolve
from engine.errors import BadFile, ModelNotFound
from engine.gguf.values import ValueType
from tests.adapters import drawn, write_adapter
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
    with pytest.raises(
        ModelNotFound, match="fetches smollm2-135m, gemma3-270m, smolvlm-256m, smolvlm2-500m or any"
    ):
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


def test_two_files_of_one_name(own: Path, own_home: Path) -> None:
    """The first has the name, which opens it; the other its path, which opens that one."""
    first = put(own / "m.gguf")
    second = put(own_home / "elsewhere" / "M.gguf", "gemma3")
    listed = list_models(opened=[second])
    assert [model.paths[0] for model in listed] == [first, second]
    assert [model.name for model in listed] == ["m", str(Path("~/elsewhere/M.gguf"))]
    assert [resolve(model.name) for model in listed] == [first, second]


def test_an_empty_machine(own_home: Path) -> None:
    assert list_models() == []


OPENED: list[str] = []
LISTENING: list[None] = []


def hear(event: str, args: tuple[object, ...]) -> None:
    if LISTENING and event == "open" and str(args[0]).endswith(".gguf"):
        OPENED.append(Path(str(args[0])).stem)


sys.addaudithook(hear)


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """Models' files that are opened from here on."""
    OPENED.clear()
    LISTENING.append(None)
    yield OPENED
    LISTENING.clear()


def test_headers_are_read_once(own: Path, opened: list[str]) -> None:
    for n in range(40):
        put(own / f"m{n:02}.gguf")
    (own / "broken.gguf").write_bytes(b"GGUF\x03")
    opened.clear()
    listed = list_models()
    assert len(listed) == 41
    assert sorted(opened) == sorted(model.name for model in listed)  # each once
    opened.clear()
    assert list_models() == listed
    assert opened == []
    put(own / "m07.gguf", architecture="gemma3", file_type=7)
    os.utime(own / "m08.gguf", ns=(1, 1))
    (own / "m09.gguf").rename(own / "n09.gguf")
    opened.clear()
    again = {model.name: model for model in list_models()}
    assert sorted(opened) == ["m07", "m08", "n09"]
    assert (again["m07"].architecture, again["m07"].quantization) == ("gemma3", "Q8_0")
    assert "m09" not in again


def test_a_split_that_changes_is_read_again(own: Path, opened: list[str]) -> None:
    parts = split(draft(), own / "big.gguf", 3)
    assert list_models()[0].problem is None
    parts[2].write_bytes(b"GGUF\x03")
    assert list_models()[0].problem is not None


def test_the_first_usable_model_is_enough(own: Path, opened: list[str]) -> None:
    (own / "a-broken.gguf").write_bytes(b"GGUF\x03")
    put(own / "b-mmproj.gguf", architecture="clip")
    for n in range(30):
        put(own / f"c{n:02}.gguf")
    opened.clear()
    assert first_usable() == own / "c00.gguf"
    assert opened == ["a-broken", "b-mmproj", "c00"]
    opened.clear()
    assert first_usable() == own / "c00.gguf"
    assert opened == []
    usable = (m for m in list_models() if not m.problem and not m.is_projector)
    assert next(usable).paths == (own / "c00.gguf",)


@pytest.mark.parametrize("content", [b"", b"\xff" * 1000, b"\x92\x01\x80", b"\x91" * 100_000])
def test_a_cache_of_headers_that_is_broken(
    own: Path, own_home: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(own / "a.gguf")
    cache = own_home / "cache" / "cutaway"
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "headers.sealed").write_bytes(content)
    assert [model.problem for model in list_models()] == [None]
    (cache / "headers.sealed").unlink()
    (cache / "headers.sealed").mkdir()  # cannot be written
    assert [model.problem for model in list_models()] == [None]


def test_one_bit_of_the_cache_of_headers(own: Path, own_home: Path) -> None:
    """MessagePack alone would be believed: a model of architecture "llqma"."""
    put(own / "a.gguf")
    (model,) = list_models()
    cache = own_home / "cache" / "cutaway" / "headers.sealed"
    content = cache.read_bytes()
    for at in range(0, len(content), 7):
        cache.write_bytes(content[:at] + bytes([content[at] ^ 16]) + content[at + 1 :])
        assert list_models() == [model]


def test_a_listing_can_be_stopped(own: Path, opened: list[str]) -> None:
    for n in range(10):
        put(own / f"m{n}.gguf")
    opened.clear()
    assert list_models(lambda: len(opened) >= 3) == []
    assert len(opened) == 3


def test_what_is_checked_before_a_model_is_given_up(own: Path) -> None:
    check_model(put(own / "good.gguf"))
    (own / "broken.gguf").write_bytes(b"GGUF\x03")
    parts = split(draft(), own / "big.gguf", 2)
    parts[1].unlink()
    for path, problem in (
        (own / "broken.gguf", "broken.gguf: "),
        (own / "none.gguf", "no such file"),
        (own, "not a file"),
        (put(own / "tower.gguf", architecture="clip"), "image projector"),
        (parts[0], "big-00001-of-00002.gguf"),
    ):
        with pytest.raises(BadFile, match=problem):
            check_model(path)


def test_an_adapter_is_no_model_and_says_what_it_is_for(own: Path) -> None:
    halves = drawn({"blk.0.attn_q.weight": (64, 64)})
    base = {"general.base_model.0.repo_url": "https://huggingface.co/org/Some-Model/"}
    write_adapter(own / "poems.gguf", "llama", halves, metadata=base)
    write_adapter(own / "unknown.gguf", "llama", halves)
    poems, unknown = list_models()
    assert (poems.adapts, poems.architecture, poems.problem) == ("Some-Model", "llama", None)
    assert (unknown.adapts, unknown.is_model, poems.is_model) == ("", False, False)
    assert first_usable() is None
    put(own / "tiny.gguf")
    assert first_usable() == own / "tiny.gguf"
