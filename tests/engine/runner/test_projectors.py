"""Which file makes a model see: found, refused, named by hand."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from gguf import GGMLQuantizationType as Kind

from engine.errors import BadFile, CutawayError
from engine.gguf import open_gguf
from engine.gguf.formats import by_name
from engine.gguf.values import ValueType
from engine.protocol import Load
from engine.runner import load
from engine.runner.pictures.beside import Opened, open_model
from engine.settings import EngineOptions
from tests.gguf_files import drafted
from tests.goldens.vision.families import write_pair, write_single


def opened(path: Path, mmproj: str = "") -> Opened:
    with ExitStack() as stack:
        return open_model(path, EngineOptions(mmproj=mmproj), 64, by_name("F16"), stack)


def moved(path: Path, to: Path) -> Path:
    to.parent.mkdir(parents=True, exist_ok=True)
    return path.rename(to)


def test_a_file_beside_the_model_whatever_its_name(tmp_path: Path) -> None:
    model, tower = write_pair(tmp_path, "gemma3")
    tower = moved(tower, tmp_path / "tower-of-gemma3.gguf")
    vision = opened(model).vision
    assert vision is not None
    assert (vision.kind, vision.path) == ("gemma3", str(tower))
    assert opened(model, "none").vision is None


def test_a_file_of_another_revision(tmp_path: Path) -> None:
    model, tower = write_pair(tmp_path, "gemma3")
    snapshots = tmp_path / "models--org--see" / "snapshots"
    model = moved(model, snapshots / "new" / model.name)
    tower = moved(tower, snapshots / "old" / tower.name)
    vision = opened(model).vision
    assert vision is not None
    assert vision.path == str(tower)


def test_one_that_does_not_fit_is_passed_over(tmp_path: Path) -> None:
    """It has the nearer name, and is of another width."""
    model, tower = write_pair(tmp_path, "gemma3")
    other = write_pair(tmp_path / "other", "mistral3")[1]
    nearer = moved(other, tmp_path / "a-mmproj-gemma3.gguf")
    vision = opened(model).vision
    assert vision is not None
    assert vision.path == str(tower)
    tower.unlink()
    assert opened(model).vision is None
    with pytest.raises(CutawayError, match="pixtral"):
        opened(model, str(nearer))
    with pytest.raises(BadFile, match="it holds no vision tower; name an mmproj file"):
        opened(model, str(model))


def test_a_file_that_holds_both_needs_no_other(tmp_path: Path) -> None:
    write_pair(tmp_path, "gemma3")
    path = write_single(tmp_path, "gemma3")
    vision = opened(path).vision
    assert vision is not None
    assert vision.path == str(path)


def named(path: Path, to: Path, **names: object) -> Path:
    """The same file with keys of `general.` more, a "_" there being a dot."""
    with open_gguf(path) as file:
        draft = drafted(file)
    more = {
        f"general.{key.replace('__', '.')}": (
            ValueType.STRING if isinstance(value, str) else ValueType.UINT32,
            value,
        )
        for key, value in names.items()
    }
    return replace(draft, pairs={**draft.pairs, **more}).write(to)


BASE = {
    "base_model__0__name": "Gemma 3 4b Pt",
    "base_model__0__repo_url": "https://hf.co/g/gemma-3-4b-pt",
}


@pytest.mark.parametrize(
    ("model", "tower", "is_told"),
    [
        ({}, {}, False),
        ({"name": "Gemma"}, {"name": "siglip so400m"}, False),  # of its encoder, says nothing
        ({"name": "Shapes"}, {"name": "Shapes", "basename": "Shapes"}, False),
        ({"name": "gemma-3-4b-it"}, {"name": "Gemma 3 4B It", "basename": "gemma-3"}, False),
        ({"name": "My Tune", **BASE}, {"name": "Gemma 3 4b It", **BASE}, False),
        ({"name": "Gemma 3 4b Pt"}, {"name": "x", **BASE}, False),
        ({"name": "Qwen2.5 VL 3B", "basename": "Qwen2.5-VL"}, {"name": "x", **BASE}, True),
        ({"name": "My Tune", **BASE}, {"name": "Other 4b", "basename": "Other"}, True),
        ({"name": 7}, {"base_model__0__name": 7, "basename": ""}, False),
    ],
)
def test_a_projector_that_comes_from_another_model_is_doubted(
    model: dict[str, object], tower: dict[str, object], is_told: bool, tmp_path: Path
) -> None:
    write_pair(tmp_path / "plain", "gemma3")
    path = named(tmp_path / "plain" / "gemma3.gguf", tmp_path / "gemma3.gguf", **model)
    eyes = named(
        tmp_path / "plain" / "mmproj-gemma3.gguf", tmp_path / "mmproj-gemma3.gguf", **tower
    )
    for mmproj in ("", str(eyes)):
        found = opened(path, mmproj)
        assert found.vision is not None
        assert len(found.notes) == is_told
        for note in found.notes:
            assert note.startswith("mmproj-gemma3.gguf was made for ")
            assert note.endswith("choose another vision file (mmproj)")
            assert "\n" not in note


def test_names_that_a_file_tells_are_short_lines(tmp_path: Path) -> None:
    write_pair(tmp_path / "plain", "gemma3")
    path = named(tmp_path / "plain" / "gemma3.gguf", tmp_path / "gemma3.gguf", name="A\nB")
    evil = "x\n" * 5000
    named(tmp_path / "plain" / "mmproj-gemma3.gguf", tmp_path / "mmproj-gemma3.gguf", basename=evil)
    (note,) = opened(path).notes
    assert len(note) < 250
    assert "\n" not in note
    assert "not from A B:" in note


@pytest.mark.parametrize(
    ("kind", "told"),
    [(Kind.F16, ""), (Kind.BF16, ""), (Kind.Q8_0, ""), (Kind.Q4_0, "Q4_0"), (Kind.Q5_1, "Q5_1")],
)
def test_weights_below_q8_0_are_doubted(kind: Kind, told: str, tmp_path: Path) -> None:
    model, _ = write_pair(tmp_path, "gemma3", kind)
    found = opened(model)
    assert found.vision is not None
    assert [told in note for note in found.notes] == ([True] if told else [])
    if told:
        assert found.notes[0].startswith(f"mmproj-gemma3.gguf has weights in {told}: ")


def test_single_files_are_no_strangers_to_themselves(tmp_path: Path) -> None:
    path = named(
        write_single(tmp_path / "plain", "gemma3"), tmp_path / "one.gguf", name="a", **BASE
    )
    found = opened(path)
    assert found.vision is not None
    assert found.notes == ()


def test_doubts_are_told_with_the_model(tmp_path: Path) -> None:
    model, _ = write_pair(tmp_path, "gemma3", Kind.Q4_0)
    with load(model, device="host", ctx=64) as seeing:
        told = seeing.loaded.describe(Load(1, str(model), EngineOptions())).notes
        assert any("has weights in Q4_0" in note for note in told)
