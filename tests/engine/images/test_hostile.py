"""Broken, hostile and odd files: each a picture or a sentence, in bounded memory."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from engine.units import MIB
from tests.engine.images.hostile import COUNT, collection, largest_of_each

MOST = 300 * MIB


def decoded(folder: Path, files: Iterable[bytes]) -> list[dict[str, object]]:
    """What became of each file, in a process of its own."""
    for number, data in enumerate(files):
        (folder / f"{number:03}").write_bytes(data)
    command = [sys.executable, "-m", "tests.engine.images.hostile", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    results = json.loads(done.stdout)
    for one in sorted(results, key=lambda one: -one["bytes"])[:5]:
        print(f"{one['bytes'] / MIB:6.0f} MiB {one['seconds']:5.2f} s  {one['said']}")
    return results


@pytest.mark.only_linux("reads /proc")
def test_each_is_a_picture_or_a_sentence(tmp_path: Path) -> None:
    results = decoded(tmp_path, collection())
    assert len(results) == COUNT
    assert [one for one in results if one["bytes"] > MOST] == []
    refused = [str(one["said"]) for one in results if str(one["said"]).startswith("refused")]
    assert COUNT // 3 < len(refused) < COUNT * 3 // 4  # neither all harmless nor all broken
    for said in refused:
        assert said.isprintable()
        assert len(said) < 300


@pytest.mark.full
@pytest.mark.only_linux("reads /proc")
def test_the_largest_pictures_of_each_kind(tmp_path: Path) -> None:
    results = decoded(tmp_path, largest_of_each())
    assert [one for one in results if str(one["said"]).startswith("refused")] == []
    assert [one for one in results if one["bytes"] > MOST] == []
