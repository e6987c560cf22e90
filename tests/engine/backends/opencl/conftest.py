"""Drivers in turn, as for the kernels."""

from tests.kernels.conftest import backend, either, pytest_generate_tests

__all__ = ["backend", "either", "pytest_generate_tests"]
