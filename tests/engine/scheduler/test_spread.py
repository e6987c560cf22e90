"""Whole models over three devices of two vendors and the host, in every placement of spread.py.

PoCL shows two devices in a process that is told so; hence a child. Each placement's logits are
compared with those of the first device alone.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.backends.opencl.drivers.find import find_drivers
from tests.engine.runner.test_fused import architecture, path

__all__ = ["architecture", "path"]

TWO_DEVICES = {"POCL_DEVICES": "pthread pthread"}
THREE = {"intel:0", "pocl:0", "pocl:1"}
PLACEMENTS = {
    "layers": THREE,
    "one layer alone": {"intel:0", "pocl:1"},
    "output elsewhere": {"intel:0", "pocl:1"},
    "attention and feed-forward apart": {"intel:0", "pocl:1"},
    "host in the middle": {*THREE, "host"},
    "every tensor anywhere": {*THREE, "host"},
    "nodes pinned anywhere": {*THREE, "host"},
}
pytestmark = pytest.mark.device


@pytest.fixture(autouse=True)
def _two_vendors() -> None:
    names = {driver.name for driver in find_drivers()}
    if not {"libintelocl", "libpocl"} <= names:
        pytest.skip("needs the drivers of the extras cpu and pocl")


def child(*words: object, timeout: int = 500) -> str:
    """What a process that sees three devices prints."""
    done = subprocess.run(
        [sys.executable, "-m", *map(str, words)],
        env={**os.environ, **TWO_DEVICES},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def spread(model: Path, *words: object) -> dict[str, dict[str, Any]]:
    """The results of spread.py by placement."""
    lines = child("tests.engine.scheduler.spread", model, *words).splitlines()
    results = [json.loads(line) for line in lines]
    for result in results:
        print(f"{model.name}: {result}")
    return {result["placement"]: result for result in results}


def check(results: dict[str, dict[str, Any]], most: float) -> None:
    """Every placement: the same logits twice, near enough, on the devices that it means."""
    assert results.keys() == PLACEMENTS.keys()
    for name, result in results.items():
        assert result["nmse"] <= most, result
        assert result["again"], result
        assert PLACEMENTS[name] <= set(result["devices"]) <= PLACEMENTS[name] | {"host"}, result
        assert result["twice"] == 0, result
    assert results["nodes pinned anywhere"]["pinned"] > 0


def test_every_device_is_listed_once() -> None:
    rows = json.loads(child("app", "devices", "--json"))
    names = [row["id"] for row in rows]
    assert len(names) == len(set(names))
    assert set(names) >= THREE
    assert len(names) == len(list_devices()) + 1


@pytest.mark.full_cases(r"\[(gemma3|mistral3)\]")
def test_tiny_models_give_the_same_logits_wherever_their_parts_lie(path: Path) -> None:
    check(spread(path), 1e-5)


@pytest.mark.full
@pytest.mark.model_file
@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_real_models_do(name: str, request: pytest.FixtureRequest) -> None:
    model: Path = request.getfixturevalue(f"{name}_path")
    check(spread(model, "--tokens", 40), 1e-4)
