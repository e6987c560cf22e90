"""Packages that a test imports when it runs: collecting, which every worker does, goes without."""

from importlib import import_module
from typing import Any


class Later:
    """Stands for a package by its name; the first look at it imports it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)
