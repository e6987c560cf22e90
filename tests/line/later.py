"""Packages that a test imports when it runs: collecting, which every worker does, goes without."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest


class Later:
    """Stands for a package by its name; the first look at it imports it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest looks for marks of its own in all that a module has
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


def need(package: str) -> None:
    """Skip a module of tests where a package is not installed, without importing it."""
    if find_spec(package) is None:
        pytest.skip(f"needs {package}", allow_module_level=True)
