"""A server of our own, and a machine that knows no other."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.server import Server, serve


@pytest.fixture
def server(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A running server; it is the package index and the Hugging Face endpoint, without a proxy."""
    for name in [n for n in os.environ if n.startswith(("PIP_", "UV_")) or "proxy" in n.lower()]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with serve() as running:
        monkeypatch.setenv("PIP_INDEX_URL", f"{running.url}/simple/")
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running
