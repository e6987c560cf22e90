"""Which file makes a model see: found, refused, named by hand."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from engine.errors import BadFile, CutawayError
from engine.gguf.formats import by_name
from engine.runner.pictures.beside import Opened, open_model
from engine.settings import EngineOptions
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
