"""The look-up: what followed the longest earlier match of a text's end."""

from random import Random

from engine.runner.drafting.ngram import LONGEST, PLACES, SHORTEST, NGrams


def draft(ngrams: NGrams) -> tuple[list[int], int]:
    place, matched = ngrams.find()
    return ngrams.following(place, 2 * matched), matched


def slow(text: list[int]) -> tuple[list[int], int]:
    """The same by trying every place."""
    end, best = len(text), (0, 0)
    places = [
        at for at in range(SHORTEST, end) if text[at - SHORTEST : at] == text[end - SHORTEST :]
    ]
    for at in places[-PLACES:]:
        n = SHORTEST
        while n < min(LONGEST, at) and text[at - n - 1] == text[end - n - 1]:
            n += 1
        best = max(best, (n, at))
    n, at = best
    if not n:
        return [], 0
    longer = list(text)
    for i in range(2 * n):
        longer.append(longer[at + i])
    return longer[end:], n


def test_it_finds_what_trying_every_place_finds() -> None:
    random, text = Random(4), [1, 2]
    ngrams, found = NGrams(text), 0
    for _ in range(600):
        text.append(random.choice(text[-9:]) if random.random() < 0.5 else random.randrange(3))
        assert draft(ngrams) == slow(text)
        found += ngrams.find()[1] > SHORTEST
    assert found > 300


def test_a_text_that_grew_by_many_is_read_once() -> None:
    text: list[int] = []
    ngrams = NGrams(text)
    assert draft(ngrams) == ([], 0)
    text += [5, 6, 7, 8, 9, 5, 6, 7]
    assert draft(ngrams) == ([8, 9, 5, 6, 7, 8], 3)
