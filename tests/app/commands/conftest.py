"""Commands that a test calls in its own process share an engine."""

import pytest


@pytest.fixture(autouse=True)
def one_engine(kept_engines: None) -> None:
    """For all of them."""
