"""Types are right: a test, so that it runs beside others."""

from tests.program import type_check


def test_mypy() -> None:
    done = type_check()
    assert done.returncode == 0, done.stdout + done.stderr
