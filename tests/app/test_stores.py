"""Models of other programs: each layout as its program writes it, each file once, never written."""

import json
import os
from pathlib import Path

import pytest

from app import stores
from app.library import list_models, resolve
from engine.gguf import projectors
from engine.gguf.values import ValueType
from tests.gguf_files import Blocks, Draft

F32 = 0
MODEL, PROJECTOR = "application/vnd.ollama.image.model", "application/vnd.ollama.image.projector"


def content(
    seed: int, architecture: str = "llama", width: int = 64, file_type: int | None = None
) -> Draft:
    """A file that differs from others by its seed."""
    key = (
        "clip.vision.projection_dim"
        if architecture == "clip"
        else f"{architecture}.embedding_length"
    )
    pairs = {
        "general.architecture": (ValueType.STRING, architecture),
        key: (ValueType.UINT32, width),
    }
    if file_type is not None:
        pairs["general.file_type"] = (ValueType.UINT32, file_type)
    return Draft(pairs, {"x.weight": Blocks(F32, (32,), bytes([seed]) * 128)})


def put(
    path: Path,
    seed: int,
    architecture: str = "llama",
    width: int = 64,
    file_type: int | None = None,
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return content(seed, architecture, width, file_type).write(path)


@pytest.fixture(autouse=True)
def home(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which no program has been."""
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    monkeypatch.setattr(stores, "OLLAMA_SERVICE", own_home / "service")
    return own_home


def ollama(root: Path, name: str, *layers: tuple[str, Path | str]) -> None:
    """A manifest as `ollama pull` leaves it; layers given by a file are moved to blobs."""
    entries = []
    for n, (kind, source) in enumerate(layers):
        digest = source if isinstance(source, str) else f"sha256:{abs(hash((name, n))):064x}"
        if isinstance(source, Path):
            blob = root / "blobs" / digest.replace(":", "-")
            blob.parent.mkdir(parents=True, exist_ok=True)
            source.rename(blob)
        entries.append({"mediaType": kind, "digest": digest, "size": 1})
    manifest = root / "manifests" / name
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": entries}))


def test_ollama(home: Path) -> None:
    root = home / ".ollama" / "models"
    ollama(
        root,
        "registry.ollama.ai/library/gemma3/270m",
        (MODEL, put(home / "a", 1)),
        ("application/vnd.ollama.image.template", "sha256:00"),
    )
    ollama(root, "registry.ollama.ai/someone/tuned/latest", (MODEL, put(home / "b", 2)))
    ollama(root, "hf.co/org/repo/Q4_K_M", (MODEL, put(home / "c", 3)))
    listed = {model.name: model for model in list_models()}
    assert sorted(listed) == ["gemma3:270m", "hf.co/org/repo:Q4_K_M", "someone/tuned:latest"]
    assert {model.origin for model in listed.values()} == {"ollama"}
    assert listed["gemma3:270m"].architecture == "llama"
    assert resolve("gemma3:270m") == listed["gemma3:270m"].paths[0]
    assert resolve("someone/tuned") == listed["someone/tuned:latest"].paths[0]
    assert listed["gemma3:270m"].paths[0].read_bytes() == content(1).write(home / "d").read_bytes()


def test_ollama_elsewhere(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(home / "there"))
    ollama(home / "there", "registry.ollama.ai/library/a/latest", (MODEL, put(home / "a", 1)))
    ollama(home / "service", "registry.ollama.ai/library/b/latest", (MODEL, put(home / "b", 2)))
    assert [model.name for model in list_models()] == ["a:latest", "b:latest"]


def test_ollama_what_cannot_be_opened(home: Path) -> None:
    root = home / ".ollama" / "models"
    kind = "application/vnd.ollama.image.tensor"
    ollama(root, "registry.ollama.ai/library/apart/latest", (kind, "sha256:01"))
    ollama(root, "registry.ollama.ai/library/gone/latest", (MODEL, "sha256:02"))
    ollama(root, "registry.ollama.ai/library/out/latest", (MODEL, "../../../secret"))
    for name, text in (("cut", '{"layers": ['), ("odd", '{"layers": 3}'), ("list", "[]")):
        (root / "manifests" / "registry.ollama.ai" / "library" / name).mkdir()
        (root / "manifests" / "registry.ollama.ai" / "library" / name / "latest").write_text(text)
    (model,) = list_models()
    assert (model.name, model.paths) == ("apart:latest", ())
    assert "separate tensors" in str(model.problem)


def test_lm_studio_and_gpt4all(home: Path) -> None:
    new = put(home / ".lmstudio" / "models" / "org" / "repo" / "m-Q4_0.gguf", 1)
    old = put(home / ".cache" / "lm-studio" / "models" / "org" / "old" / "m-Q8_0.gguf", 2)
    flat = put(home / "data" / "nomic.ai" / "GPT4All" / "orca-mini.gguf", 3)
    listed = {model.name: (model.origin, model.paths) for model in list_models()}
    assert listed == {
        "org/repo:Q4_0": ("lm studio", (new,)),
        "org/old:Q8_0": ("lm studio", (old,)),
        "orca-mini": ("gpt4all", (flat,)),
    }
    assert resolve("org/repo") == new
    assert resolve("orca-mini") == flat


def test_a_model_kept_by_several_programs_is_listed_once(home: Path) -> None:
    own = put(home / "data" / "cutaway" / "models" / "m.gguf", 1)
    put(home / ".lmstudio" / "models" / "org" / "repo" / "m-Q4_0.gguf", 1)
    ollama(
        home / ".ollama" / "models",
        "registry.ollama.ai/library/m/latest",
        (MODEL, put(home / "a", 1)),
    )
    (model,) = list_models()
    assert (model.name, model.origin, model.paths) == ("m", "own", (own,))


def test_projectors_are_paired_by_folder_and_width(home: Path) -> None:
    folder = home / ".lmstudio" / "models" / "org" / "see"
    put(folder / "see-Q4_0.gguf", 1, width=96)
    fits = put(folder / "mmproj-see-F16.gguf", 2, "clip", 96)
    put(folder / "mmproj-other-F16.gguf", 3, "clip", 128)
    listed = {model.name: model for model in list_models()}
    assert listed["org/see:Q4_0"].projector == fits
    assert listed["org/see:mmproj-see-F16"].is_projector
    assert listed["org/see:mmproj-see-F16"].projector is None


def test_in_a_folder_of_many_models_the_name_must_fit_too(home: Path) -> None:
    folder = home / "data" / "cutaway" / "models"
    put(folder / "gemma-3-4b-Q4_0.gguf", 1)
    put(folder / "qwen2-2b-Q4_0.gguf", 2)
    fits = put(folder / "mmproj-gemma-3-4b.gguf", 3, "clip")
    listed = {model.name: model.projector for model in list_models()}
    assert listed["gemma-3-4b-Q4_0"] == fits
    assert listed["qwen2-2b-Q4_0"] is None


def test_a_projector_without_a_name_belongs_to_the_only_family(home: Path) -> None:
    folder = home / ".lmstudio" / "models" / "org" / "see"
    for seed, kind in enumerate(("Q4_0", "Q8_0")):
        put(folder / f"see-3b-{kind}.gguf", seed)
    put(folder / "mmproj-BF16.gguf", 4, "clip", file_type=32)
    fits = put(folder / "mmproj-F16.gguf", 5, "clip", file_type=1)
    listed = {model.name: model.projector for model in list_models()}
    assert listed["org/see:Q4_0"] == listed["org/see:Q8_0"] == fits


def test_a_projector_of_another_width_is_told(home: Path) -> None:
    folder = home / "data" / "cutaway" / "models"
    put(folder / "see-3b.gguf", 1, width=96)
    put(folder / "mmproj-see-7b.gguf", 2, "clip", 128)
    put(folder / "talk-1b.gguf", 3)
    listed = {model.name: model for model in list_models()}
    assert listed["see-3b"].projector is None
    told = (
        "mmproj-see-7b.gguf belongs to another model: its embeddings have 128 numbers, this"
        " model's 96"
    )
    assert listed["see-3b"].mismatch == told
    assert listed["talk-1b"].mismatch is None


def test_a_projector_for_sound_is_told(home: Path) -> None:
    folder = home / ".lmstudio" / "models" / "org" / "hear"
    put(folder / "hear-Q4_0.gguf", 1)
    sound = content(2, "clip")
    sound.pairs["clip.has_vision_encoder"] = (ValueType.BOOL, False)
    sound.write(folder / "mmproj-hear.gguf")
    (model,) = [model for model in list_models() if not model.is_projector]
    assert model.mismatch == "mmproj-hear.gguf is for sound, not for pictures"


def test_a_broken_projector_has_its_own_problem(home: Path) -> None:
    folder = home / ".lmstudio" / "models" / "org" / "see"
    put(folder / "see-Q4_0.gguf", 1)
    (folder / "mmproj-see.gguf").write_bytes(b"GGUF")
    listed = {model.is_projector: model for model in list_models()}
    assert listed[True].problem
    assert (listed[False].projector, listed[False].mismatch) == (None, None)


def test_a_projector_of_an_older_revision(home: Path) -> None:
    root = home / "hf" / "hub" / "models--org--see"

    def put_file(revision: str, file: str, seed: int, architecture: str) -> Path:
        blob = put(root / "blobs" / f"{seed:064x}", seed, architecture)
        link = root / "snapshots" / (revision * 40) / file
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blob)
        return link

    put_file("b", "see-Q4_0.gguf", 1, "llama")
    tower = put_file("a", "mmproj-see-F16.gguf", 2, "clip")
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text("b" * 40)
    listed = {model.name: model.projector for model in list_models()}
    assert listed == {"org/see:Q4_0": tower, "org/see:mmproj-see-F16": None}


def test_ollama_projector(home: Path) -> None:
    ollama(
        home / ".ollama" / "models",
        "registry.ollama.ai/library/llava/7b",
        (MODEL, put(home / "a", 1)),
        (PROJECTOR, put(home / "b", 2, "clip")),
    )
    listed = {model.name: model for model in list_models()}
    assert sorted(listed) == ["llava:7b", "llava:7b (projector)"]
    assert listed["llava:7b"].projector == listed["llava:7b (projector)"].paths[0]


def test_a_folder_that_may_not_be_read(home: Path) -> None:
    (home / ".lmstudio").mkdir()
    (home / ".lmstudio" / "models").write_text("a file in its place")
    (home / "data" / "nomic.ai").mkdir(parents=True)
    (home / "data" / "nomic.ai" / "GPT4All").symlink_to(home / "nowhere")
    assert list_models() == []


def test_files_opened_from_elsewhere_come_last_and_once(home: Path) -> None:
    own = put(home / "data" / "cutaway" / "models" / "own-Q4_0.gguf", 1)
    elsewhere = put(home / "desk" / "some-Q4_0.gguf", 2)
    put(home / "desk" / "other-Q4_0.gguf", 3)
    opened = [elsewhere, own, elsewhere, home / "desk" / "gone.gguf", home / "no" / "x.gguf"]
    listed = {model.name: (model.origin, model.paths) for model in list_models(opened=opened)}
    assert listed == {
        "own-Q4_0": ("own", (own,)),
        "some-Q4_0": ("opened", (elsewhere,)),
    }


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Folders that may not be listed, as others' folders; the tests may run as root."""
    folders: set[str] = set()
    scandir = os.scandir

    def refusing(path: str | Path = ".") -> object:
        if os.fspath(path) in folders:
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    return folders


def hub_file(home: Path, repo: str, revision: str, name: str, seed: int) -> Path:
    """A file of the Hugging Face cache: a blob, and the link to it."""
    folder = home / "hf" / "hub" / f"models--{repo.replace('/', '--')}"
    blob = put(folder / "blobs" / f"{seed:064x}", seed)
    link = folder / "snapshots" / revision / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(blob)
    return link


def test_a_closed_folder_does_not_end_the_list(
    home: Path, closed: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    hub_file(home, "org/open", "r1", "m-Q4_0.gguf", 1)
    hub_file(home, "org/shut", "r1", "n-Q4_0.gguf", 2)
    put(home / ".lmstudio" / "models" / "a" / "open" / "x-Q4_0.gguf", 3)
    put(home / ".lmstudio" / "models" / "b" / "shut" / "y-Q4_0.gguf", 4)
    ollama(home / "service", "registry.ollama.ai/library/a/latest", (MODEL, put(home / "a", 5)))
    shut = [
        home / "hf" / "hub" / "models--org--shut" / "snapshots",
        home / ".lmstudio" / "models" / "b",
        home / "service" / "manifests",
    ]
    closed |= {str(path) for path in shut}
    assert [model.name for model in list_models()] == ["a/open:Q4_0", "org/open:Q4_0"]
    assert resolve("org/open:Q4_0").name == "m-Q4_0.gguf"
    assert stores.unreadable() == [f"{path}: Permission denied" for path in shut]
    closed |= {str(home / "hf" / "hub"), str(home / ".lmstudio" / "models")}
    assert list_models() == []
    from app.commands import doctor

    doctor.print_rest(True, [])
    assert f"models are left out: {home / 'hf' / 'hub'}: Permission" in capsys.readouterr().out
    assert doctor.as_json([], [])["unreadable"] == stores.unreadable()


def test_broken_links_and_names_hide_nothing_else(home: Path) -> None:
    good = hub_file(home, "org/repo", "r1", "m-Q4_0.gguf", 1)
    (good.parent / "gone-Q8_0.gguf").symlink_to(home / "nowhere")
    loop = good.parent / "loop-Q8_0.gguf"
    loop.symlink_to(loop)
    refs = home / "hf" / "hub" / "models--org--repo" / "refs"
    refs.mkdir()
    (refs / "main").write_bytes(b"\xff\xfe\x00")
    (refs / "other").write_text("a revision that is not there")
    (home / "hf" / "hub" / "models--org--repo" / "snapshots" / "a file").touch()
    (home / "hf" / "hub" / "models--empty").mkdir()
    hub_file(home, "org/next", "r1", "n-Q4_0.gguf", 2)
    refs = home / "hf" / "hub" / "models--org--next" / "refs"
    refs.mkdir()
    os.mkfifo(refs / "main")  # whose writer is not waited for
    assert [model.name for model in list_models()] == ["org/next:Q4_0", "org/repo:Q4_0"]


def test_of_several_revisions_main_comes_first(home: Path) -> None:
    main = hub_file(home, "org/repo", "old", "m-Q4_0.gguf", 1)
    new = hub_file(home, "org/repo", "new", "m-Q4_0.gguf", 2)
    os.utime(new.resolve(), (2e9, 2e9))
    assert list_models()[0].paths == (new,)
    refs = home / "hf" / "hub" / "models--org--repo" / "refs"
    refs.mkdir()
    (refs / "main").write_text("old\n")
    assert list_models()[0].paths == (main,)


def test_manifests_that_are_none_do_not_end_the_list(home: Path) -> None:
    root = home / ".ollama" / "models"
    ollama(root, "registry.ollama.ai/library/good/latest", (MODEL, put(home / "a", 1)))
    ollama(root, "registry.ollama.ai/library/nul/latest", (MODEL, "sha256:\0"))
    ollama(root, "registry.ollama.ai/library/half/latest", (MODEL, "sha256:\ud800"))
    folder = root / "manifests" / "registry.ollama.ai" / "library"
    (folder / "deep").mkdir()
    (folder / "deep" / "latest").write_bytes(b"[" * 200_000)
    os.mkfifo(folder / "deep" / "pipe")
    (model,) = list_models()
    assert model.name == "good:latest"
    assert projectors.beside(model.paths[0]) == []


def test_watched_folders_with_those_below(
    tiny_path: Path, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a bounded number of folders, since somebody may watch a whole disk."""
    for at, name in enumerate(("a", "b", "c")):
        folder = tmp_path.joinpath("watched", *"xyz"[:at])
        folder.mkdir()
        folder.joinpath(f"{name}.gguf").write_bytes(tiny_path.read_bytes() + bytes(at))
    watched = [tmp_path / "watched", tmp_path / "gone"]

    def listed() -> list[tuple[str, str]]:
        return [(model.name, model.origin) for model in list_models(watched=watched)]

    assert listed() == [("a", "watched"), ("x/b", "watched"), ("x/y/c", "watched")]
    assert list_models() == []
    monkeypatch.setattr(stores, "MOST_WALKED", 2)
    assert listed() == [("a", "watched"), ("x/b", "watched")]
