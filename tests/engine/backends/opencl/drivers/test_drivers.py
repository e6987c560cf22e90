"""Drivers are found wherever they are named, each once."""

import os
from importlib import metadata

import pytest

from engine.backends.opencl.drivers import find as drivers
from engine.backends.opencl.drivers.find import Driver, find_drivers


@pytest.fixture
def nothing_installed(monkeypatch, tmp_path):
    """No package brings a driver and the system's folder is empty."""
    folder = tmp_path / "vendors"
    folder.mkdir()
    monkeypatch.setattr(drivers, "PACKAGES", {})
    monkeypatch.setattr(drivers, "SYSTEM_FOLDER", folder)
    monkeypatch.setattr(drivers, "find_spec", lambda name: None)
    monkeypatch.setattr(drivers.sys, "prefix", str(tmp_path))
    return folder


def libraries(environ=None):
    return [driver.library for driver in find_drivers(environ or {})]


def test_system_folder(nothing_installed, tmp_path):
    library = tmp_path / "liba.so"
    library.touch()
    (nothing_installed / "a.icd").write_text(f"{library}\n")
    (nothing_installed / "b.icd").write_text("libb.so.1")  # a bare name: the loader's search path
    (nothing_installed / "empty.icd").write_text("\n")
    (nothing_installed / "dangling.icd").symlink_to("nowhere")
    (nothing_installed / "untrue.icd").write_text("/nowhere/libc.so")
    (nothing_installed / "README").write_text("no driver")
    assert libraries() == [str(library), "libb.so.1"]


def test_same_library_counts_once(nothing_installed, tmp_path):
    library, link = tmp_path / "liba.so.1", tmp_path / "liba.so"
    library.touch()
    link.symlink_to(library)
    (nothing_installed / "a.icd").write_text(str(library))
    (nothing_installed / "b.icd").write_text(str(link))
    assert libraries() == [str(library)]


def test_chosen_folder_stands_for_the_systems(nothing_installed, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (nothing_installed / "a.icd").write_text("liba.so")
    (own / "b.icd").write_text("libb.so")
    assert libraries({"OCL_ICD_VENDORS": str(own)}) == ["libb.so"]
    assert libraries({"OCL_ICD_VENDORS": str(own / "b.icd")}) == ["libb.so"]
    assert libraries({"OCL_ICD_VENDORS": "libc.so"}) == ["libc.so"]
    both = os.pathsep.join((str(own / "b.icd"), "libc.so"))
    assert libraries({"OCL_ICD_FILENAMES": both}) == ["libb.so", "libc.so", "liba.so"]


def test_emulator_of_fpgas_is_no_device(nothing_installed):
    (nothing_installed / "fpga.icd").write_text("libintelocl_emu.so")
    assert libraries() == []


def test_one_intel_runtime_only(nothing_installed):
    (nothing_installed / "a.icd").write_text("libintelocl.so.2024")
    (nothing_installed / "b.icd").write_text("libintelocl.so.2025")
    assert libraries() == ["libintelocl.so.2024"]


@pytest.mark.parametrize(
    ("library", "name"),
    [
        ("/x/libpocl-21062cec.so", "libpocl"),
        ("libpocl.so.2.10.0", "libpocl"),
        ("libnvidia-opencl.so.1", "libnvidia-opencl"),
    ],
)
def test_name(library, name):
    assert Driver(library, "").name == name


def test_the_wheels_untrue_path_is_not_used():
    """The Intel wheel's driver is found by its package, though its .icd names another folder."""
    try:
        metadata.files("intel-opencl-rt")
    except metadata.PackageNotFoundError:
        pytest.skip("intel-opencl-rt is not installed")
    found = [d for d in find_drivers({}) if d.origin == "intel-opencl-rt"]
    assert len(found) == 1
    assert os.path.exists(found[0].library)
