"""One server for all tests, and leave to talk to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.serve.running import Served, served


@pytest.fixture(autouse=True)
def loopback(refused: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine may be connected to."""
    monkeypatch.setenv("CUTAWAY_TEST_HOSTS", "127.0.0.1 localhost ::1")


@pytest.fixture(scope="session")
def tiny(tiny_path: Path) -> Iterator[Served]:
    """A server of a random model, on the host."""
    with served(tiny_path) as running:
        yield running
