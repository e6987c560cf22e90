"""Where a device's numbers come from, and what of a file is taken."""

import json
from pathlib import Path

import pytest
from msgspec import structs

from engine.backends.opencl import tuned
from engine.backends.opencl.drivers.device import list_devices
from engine.backends.opencl.tuned import (
    CHOICES,
    Tuned,
    TuningFile,
    default,
    key_of,
    read,
    tuned_for,
)

SHIPPED = Path(__file__).parents[4] / "resources" / "tuning"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's own folder of measurements, empty."""
    monkeypatch.setattr(tuned, "own_folder", lambda: tmp_path)
    return tmp_path


def write(folder: Path, key: str, values: dict[str, object]) -> None:
    (folder / f"{key}.json").write_text(json.dumps({"values": values}))


def test_a_device_that_nobody_measured_has_the_default(own: Path) -> None:
    assert tuned_for("intel-never-seen") == default()


def test_an_own_measurement_holds_over_the_default(own: Path) -> None:
    write(own, "intel-some", {"panel": 4, "chunk": 32})
    assert tuned_for("intel-some") == structs.replace(default(), panel=4, chunk=32)
    assert tuned_for("intel-other") == default()


def test_an_own_measurement_holds_over_what_is_shipped(own: Path) -> None:
    for path in shipped():
        write(own, path.stem, {"ahead": 2048})
        assert tuned_for(path.stem) == structs.replace(default(), ahead=2048)


def test_numbers_of_other_versions_are_left_out(own: Path) -> None:
    write(own, "pocl-some", {"panel": 5, "chunk": -1, "unheard": 3, "tiles": 2})
    assert tuned_for("pocl-some") == structs.replace(default(), tiles=2)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"values": {"panel": "8"}}', b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_as_none(own: Path, raw: bytes) -> None:
    (own / "intel-some.json").write_bytes(raw)
    assert tuned_for("intel-some") == default()
    (own / "intel-folder.json").mkdir()
    assert tuned_for("intel-folder") == default()


def test_the_default_and_all_that_is_shipped_are_choices() -> None:
    assert CHOICES.keys() == set(Tuned.__struct_fields__)
    for path in (SHIPPED / "default.json", *shipped()):
        stored = read(path)
        assert isinstance(stored, TuningFile), path
        assert stored.values, path
        assert all(value in CHOICES[name] for name, value in stored.values.items()), path


@pytest.mark.device
def test_every_device_has_a_file_of_its_own_name() -> None:
    for info in list_devices():
        family, _, _ = info.name.partition(":")
        assert info.tuning.startswith(f"{family}-")
        assert info.traits.tuned == tuned_for(info.tuning)


def test_names_of_files() -> None:
    assert key_of("intel", "AMD EPYC", 512) == "intel-amd-epyc-512bit"
    assert key_of("nvidia", "NVIDIA H200 (80/GB)", 0) == "nvidia-nvidia-h200-80-gb"


def shipped() -> list[Path]:
    return [path for path in SHIPPED.glob("*.json") if path.stem != "default"]
