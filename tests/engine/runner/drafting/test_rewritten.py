"""Drafts of a text that is written again with changes, right after each change."""

from random import Random

import pytest

from engine.runner.drafting.ngram import SHORTEST
from engine.runner.drafting.rewritten import AHEAD, MOST_CHANGED, SURE, Rewritten

OLD = list(range(100, 200))
AT = 40  # of the old text, where it is changed

CHANGES = {
    "one for another": ([1], 1),
    "three for three": ([1, 2, 3], 3),
    "one for nothing": ([1], 0),
    "three for one": ([1, 2, 3], 1),
    "nothing for four": ([], 4),
}
"""Tokens put in, and how many of the old ones are left out for them."""


@pytest.mark.parametrize(("put_in", "left_out"), CHANGES.values(), ids=CHANGES)
def test_it_continues_after_the_change(put_in: list[int], left_out: int) -> None:
    """One token after it at the latest, which shows that the change is over."""
    new = [*OLD[:AT], *put_in, *OLD[AT + left_out :]]
    text = [*OLD, 5, 6]
    drafts = Rewritten(text)
    drafts.draft()
    for token in new[: AT + len(put_in) + 1]:
        text.append(token)
        drafted, matched = drafts.draft()
    after = AT + left_out + 1
    assert (drafted, matched) == (OLD[after : after + AHEAD], 0)
    text += OLD[after : after + SHORTEST]  # they match again, and there
    at = after + SHORTEST
    assert drafts.draft() == (OLD[at : at + AHEAD], SHORTEST + 1)


def test_a_token_for_another_is_no_delay() -> None:
    text = [*OLD, 5, 6, *OLD[:AT]]
    drafts = Rewritten(text)
    assert drafts.draft()[1] >= SURE
    text.append(1)
    assert drafts.draft() == (OLD[AT + 1 : AT + 1 + AHEAD], 0)


def test_the_end_itself_is_no_earlier_text() -> None:
    text = [1, 2, 3, 4] * 4
    drafts = Rewritten(text)
    assert drafts.draft() == ([1, 2, 3, 4] * 6, 12)
    text.append(9)
    assert drafts.draft() == ([], 0)


def test_another_text_is_not_followed() -> None:
    text = [*OLD, 5, 6, *OLD[:AT]]
    drafts = Rewritten(text)
    assert drafts.draft()[0]
    for token in range(MOST_CHANGED + 1):
        text.append(1000 + token)
        drafted, _ = drafts.draft()
    assert not drafted


def test_a_short_match_is_no_text_that_is_written_again() -> None:
    text = [*OLD, 5, 6, *OLD[10 : 10 + SURE - 1]]
    drafts = Rewritten(text)
    assert drafts.draft()[1] == SURE - 1
    text.append(1)
    assert drafts.draft() == ([], 0)


def test_any_text_has_drafts_of_its_own_tokens() -> None:
    """Pieces of it again and again, with a new token here and there: all changes come."""
    random, text = Random(7), list(range(300))
    drafts, n_after = Rewritten(text), 0
    for _ in range(3000):
        at = random.randrange(len(text))
        copied = text[at : at + random.randrange(1, 30)]
        text += [*copied, random.randrange(300)] if random.random() < 0.5 else copied
        drafted, matched = drafts.draft()
        assert set(drafted) <= set(text)
        assert len(drafted) in (AHEAD, 2 * matched)
        n_after += bool(drafted) and not matched
    assert n_after > 100
