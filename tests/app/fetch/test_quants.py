"""Which model of a repository is offered first, and what its row says."""

from dataclasses import replace

import pytest

from app.fetch.quants import BEST, FoundQuant, HeaderPlan, Verdict, preselected, quants
from app.fetch.search import RepoFile

SIZES = {"Q8_0": 80, "Q6_K": 66, "Q5_K_M": 57, "Q4_K_M": 48, "IQ4_XS": 43, "Q2_K": 30, "F16": 160}


def rows(**verdicts: Verdict) -> list[FoundQuant]:
    files = [RepoFile(f"m-{kind}.gguf", size, f"{size:064x}") for kind, size in SIZES.items()]
    found = quants("o/r", files)
    assert [row.size for row in found] == sorted(SIZES.values())
    return [
        replace(row, plan=HeaderPlan(verdicts[row.label], 8192, 1, 2, "d", None, ""))
        if row.label in verdicts
        else row
        for row in found
    ]


@pytest.mark.parametrize(
    ("verdicts", "parameters", "expected"),
    [
        ({}, 3e9, "Q8_0"),
        ({}, 9e9, "Q4_K_M"),
        ({}, None, "Q8_0"),
        ({"F16": "fits", "Q8_0": "fits", "Q6_K": "fits"}, 3e9, "Q8_0"),
        (
            {"Q8_0": "too_big", "Q6_K": "fits_smaller", "Q4_K_M": "fits", "Q2_K": "fits"},
            3e9,
            "Q4_K_M",
        ),
        ({"Q8_0": "fits", "Q4_K_M": "fits", "Q2_K": "fits"}, 9e9, "Q4_K_M"),
        ({"Q8_0": "fits", "IQ4_XS": "fits", "Q2_K": "fits"}, 9e9, "IQ4_XS"),
        ({"F16": "fits"}, 3e9, "F16"),
        ({"Q8_0": "too_big", "Q4_K_M": "fits_smaller", "Q2_K": "fits_smaller"}, 3e9, "Q2_K"),
        ({"Q8_0": "too_big", "Q2_K": "too_big"}, 3e9, None),
    ],
)
def test_the_best_that_fits(
    verdicts: dict[str, Verdict], parameters: float | None, expected: str | None
) -> None:
    number = None if parameters is None else int(parameters)
    chosen = preselected(rows(**verdicts), number)
    assert (chosen.label if chosen is not None else None) == expected


def test_what_cannot_be_opened_is_never_offered() -> None:
    files = [RepoFile("m-Q1_0.gguf", 9), RepoFile("m-Q8_0-00001-of-00002.gguf", 9)]
    found = quants("o/r", [*files, RepoFile("mmproj-F16.gguf", 9)])
    assert [row.supported for row in found] == [False, False]
    assert preselected(found, None) is None
    assert preselected([], None) is None


def test_the_order_is_that_of_the_design() -> None:
    order = "Q8_0 Q6_K Q5_K_M Q4_K_M IQ4_XS Q4_0 Q3_K_M Q2_K"
    assert " ".join(BEST) == order
