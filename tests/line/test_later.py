"""Collecting imports no package that a test alone needs."""

import pytest

from tests.line.later import Later, need


@pytest.mark.parametrize("name", ["__wrapped__", "__test__", "_mock_name"])
def test_what_pytest_looks_for_imports_nothing(name: str) -> None:
    assert not hasattr(Later("no_such_package"), name)


def test_the_first_look_imports_it() -> None:
    assert Later("colorsys").hls_to_rgb(0, 1, 0) == (1, 1, 1)
    with pytest.raises(ModuleNotFoundError):
        Later("no_such_package").anything  # noqa: B018


def test_a_module_is_skipped_without_its_package() -> None:
    need("colorsys")
    with pytest.raises(pytest.skip.Exception, match="needs no_such_package"):
        need("no_such_package")
