"""Commands that a test calls in its own process share an engine."""

import pytest

from tests.in_process import kept_engines

__all__ = ["kept_engines"]


@pytest.fixture(autouse=True)
def one_engine(kept_engines: None) -> None:
    """For all of them."""
