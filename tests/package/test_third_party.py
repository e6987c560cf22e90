"""The page of third-party packages names what an installation brings along."""

import pytest

from tests.package.third_party import PAGE, licence, required


def named() -> dict[str, str]:
    rows = [line.split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines()]
    return {row[0].removeprefix("| "): row[1] for row in rows if len(row) == 3}


@pytest.mark.parametrize(
    "depth",
    [
        pytest.param(1, id="required by Cutaway"),
        # Newer versions of others' packages may need further ones at any time.
        pytest.param(None, id="all", marks=pytest.mark.full),
    ],
)
def test_each_package_is_named_with_a_licence(depth: int | None) -> None:
    page, installed = named(), required(depth)
    assert len(installed) > 20
    for name, package in installed.items():
        title = package.metadata["Name"]
        assert page.get(title), f"{title} is not named: run python -m tests.package.third_party"
        assert licence(name, package), f"{title} has no licence in its metadata"
