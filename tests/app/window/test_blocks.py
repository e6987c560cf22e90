"""No text, file or change of size blocks the window for more than 50 ms, a key not for 16.

Turns of the loop are measured in the time of a plain loop, before and after (tests/blocks.py).
"""

from collections.abc import Callable

import pytest

from tests.blocks import SCENES, TEXTS, Blocks, Rows, opened, rows_of
from tests.bounds import holds_once

MOST, KEY = 0.050, 0.016  # seconds of a machine of today with nothing else to do

pytestmark = [pytest.mark.alone, pytest.mark.styled]


def too_long(rows: dict[str, float]) -> dict[str, float]:
    """The acts that take longer than they may, in milliseconds."""
    return {
        act: round(1000 * took)
        for act, took in rows.items()
        if took > (KEY if act.startswith("key") else MOST)
    }


def holds(name: str, messages: int, do: Callable[..., Rows]) -> None:
    """Do all of a scene in up to three windows: each act is quick in one of them. Other programs
    slow down a turn, but not the same one each time.
    """
    least: dict[str, float] = {}
    texts = {name: TEXTS[name]} if name in TEXTS else {}

    def check() -> None:
        with opened(texts, messages) as (blocks, engine, chats):
            for act, took in do(name, blocks, engine, chats).items():
                least[act] = min(took.quiet, least.get(act, took.quiet))
        assert too_long(least) == {}

    holds_once(check)


@pytest.mark.full
@pytest.mark.parametrize("name", SCENES)
def test_nothing_blocks_the_window(qapp: object, name: str) -> None:
    holds(name, 5000 if name == "5,000 messages" else 0, rows_of)


def test_a_line_without_a_break_does_not_block_the_window(qapp: object) -> None:
    def look(name: str, blocks: Blocks, engine: object, chats: dict[str, int]) -> Rows:
        opens, scrolls = blocks.open(chats[name]), blocks.scroll()
        pastes = blocks.paste(blocks.edit(0), TEXTS[name])
        return {"open": opens, "scroll": scrolls, "paste": pastes}

    holds("60 KB of _", 0, look)
