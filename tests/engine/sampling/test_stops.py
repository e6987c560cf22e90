"""Stop strings against the definition: everything before the first match, however it is cut."""

from hypothesis import given
from hypothesis import strategies as st

from engine.sampling.stops import LineStop, StopFilter

TEXT = st.text("abc", max_size=30)


@given(st.lists(st.text("abc", min_size=1, max_size=4), max_size=3), TEXT, st.randoms())
def test_shown_is_all_before_the_earliest_completed_match(stops, text, random) -> None:
    filter_ = StopFilter(stops)
    shown, rest = "", text
    while rest and filter_.matched is None:
        n = random.randint(1, 4)
        shown += filter_.push(rest[:n])
        rest = rest[n:]
        assert not any(s in shown for s in stops)
    shown += filter_.flush()
    if filter_.matched is None:
        assert shown == text
        assert not any(s in text for s in stops)
    else:
        assert text.startswith(shown + filter_.matched)


@given(TEXT)
def test_without_stops_nothing_is_held_back(text: str) -> None:
    assert StopFilter([]).push(text) == text


def test_the_earliest_match_wins_not_the_first_of_the_list() -> None:
    filter_ = StopFilter(["late", "early", "earl"])
    assert filter_.push("an early or late end") == "an "
    assert filter_.matched == "early"  # of two at one place the one listed first


def test_a_stop_split_over_pieces_is_never_shown() -> None:
    filter_ = StopFilter(["</end>"])
    pieces = ["Hel", "lo <", "/e", "nd", "> more"]
    assert "".join(filter_.push(p) for p in pieces) + filter_.flush() == "Hello "
    assert filter_.matched == "</end>"


def test_a_false_start_comes_out_later() -> None:
    filter_ = StopFilter(["STOP"])
    assert filter_.push("a ST") == "a "
    assert filter_.push("AR") == "STAR"


LINES = st.text("a \n", max_size=30)


def shown_of(text: str, indent: int, random) -> tuple[str, bool]:
    stop, shown = LineStop(indent, 0.0), ""
    while text:
        n = random.randint(1, 4)
        shown += stop.push(text[:n])
        text = text[n:]
    return shown + stop.flush(), stop.ended


@given(LINES, st.integers(0, 3), st.randoms())
def test_a_line_with_less_indentation_ends_the_text(text, indent, random) -> None:
    """Blank lines do not, and go with the line that does."""
    first, *lines = text.split("\n")
    kept = [first]
    for line in lines:
        if line.strip(" ") and len(line) - len(line.lstrip(" ")) < indent:
            break
        kept.append(line)
    ended = len(kept) <= len(lines)
    while ended and len(kept) > 1 and not kept[-1].strip(" "):
        kept.pop()
    assert shown_of(text, indent, random) == ("\n".join(kept), ended)


def test_the_first_line_that_ends_too_late_is_the_last() -> None:
    now = iter([10.0, 11.0, 13.0, 13.5])
    stop = LineStop(0, 2.0, lambda: next(now))
    pieces = ["a", "b\nc", "d", "e\n f"]
    assert [stop.push(piece) for piece in pieces] == ["a", "b\nc", "d", "e"]
    assert (stop.ended, stop.push("more"), stop.flush()) == (True, "", "")
