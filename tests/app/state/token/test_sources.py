"""The sources of a word where pictures are, against shares given by hand."""

import numpy as np
import pytest

from app.state.talk.message import Message
from app.state.token.context import ContextMap
from app.state.token.sources import Sources
from engine.protocol import PlacedRows
from tests.app.state.token.test_context import items

# two tiles with a learned row behind each, then a second picture: <i> is a row
TEXT = "<s><i><i><i><i><i><i>What is it<i><i>"
ROWS = [
    PlacedRows(1, "d", 0, 0, 2, 1),
    PlacedRows(1, "d", -1, 0, 1, 3),
    PlacedRows(1, "d", 1, 4, 2, 4),
    PlacedRows(1, "d", -1, 0, 1, 6),
    PlacedRows(2, "e", 0, 0, 2, 10),
]
SHARES = [0.3, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.2, 0.09, 0.15, 0.03, 0.02]


@pytest.fixture
def sources() -> Sources:
    context = ContextMap(items(TEXT, ROWS), [Message(1, 1, None, "user", "What is it")])
    return Sources(context, np.array(SHARES, np.float32))


def test_each_place_of_a_picture_has_its_share_and_learned_rows_have_no_place(
    sources: Sources,
) -> None:
    assert {key: [*rows.items()] for key, rows in sources.of_rows().items()} == {
        (1, 0): [(0, pytest.approx(0.01)), (1, pytest.approx(0.02))],
        (1, 1): [(4, pytest.approx(0.04)), (5, pytest.approx(0.05))],
        (2, 0): [(0, pytest.approx(0.03)), (1, pytest.approx(0.02))],
    }
    assert sources.of_pictures() == {1: pytest.approx(0.21), 2: pytest.approx(0.05)}


def test_a_picture_is_one_source_among_words(sources: Sources) -> None:
    assert [(s.text, s.picture, pytest.approx(s.share)) for s in sources.listed()] == [
        ("", 1, 0.21),
        ("What", None, 0.2),
        (" it", None, 0.15),
        (" is", None, 0.09),
        ("", 2, 0.05),
    ]
    assert [s.share for s in sources.listed(2)] == pytest.approx([0.21, 0.2])
    assert sources.first + sources.in_template + sum(
        s.share for s in sources.listed()
    ) == pytest.approx(1)
    assert sources.largest == pytest.approx(0.2)  # one token is as bright as it is looked at
    assert [light[2] for light in sources.lights()[1]] == pytest.approx(
        [1.0, (0.09 / 0.2) ** 0.5, (0.15 / 0.2) ** 0.5]
    )
