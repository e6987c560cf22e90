"""Drivers in turn, as for the kernels."""

from tests.kernels.conftest import backend, pytest_generate_tests

__all__ = ["backend", "pytest_generate_tests"]
