"""A selection as a link: what is copied is followed, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.state.selection import (
    LONGEST_LINK,
    BadLink,
    Selected,
    Selection,
    link_of,
    selected_of,
)

LINKS = (
    (Selected(), "cutaway:"),
    (Selected((7, 36), layer=21, head=3), "cutaway:token=7.36;layer=21;head=3"),
    (
        Selected(layer=3, operation="Qcur-3#1", device="intel:0"),
        "cutaway:layer=3;operation=Qcur-3%231;device=intel:0",
    ),
    (Selected(operation="cache_k_l0 (view)"), "cutaway:operation=cache_k_l0%20%28view%29"),
    (Selected(split=2, device="host", component="cache"),
     "cutaway:split=2;device=host;component=cache"),
    (Selected(layer=0, tensor="blk.0.ünï=;.weight"),
     "cutaway:layer=0;tensor=blk.0.%C3%BCn%C3%AF%3D%3B.weight"),
)  # fmt: skip


@pytest.mark.parametrize(("selected", "link"), LINKS, ids=[link for _, link in LINKS])
def test_there_and_back(qapp: object, selected: Selected, link: str) -> None:
    assert link_of(selected) == link
    assert selected_of(f"  {link}\n") == selected
    selection = Selection()
    selection.select_layer(1)
    selection.follow(link)
    assert (selection.now, selection.link()) == (selected, link)
    selection.back()
    assert selection.now == Selected(layer=1)


BROKEN = {
    "https://example.com/layer=3": "https://example.com",
    "": "not a link",
    "cutaway:layer": "“layer”",
    "cutaway:layer=": "layer is “”",
    "cutaway:layer=-1": "“-1”",
    "cutaway:layer=٣": "“٣”",
    "cutaway:layer=1e3": "“1e3”",
    "cutaway:layer=9999999": "“9999999”",
    "cutaway:layer=3;layer=4": "two of layer",
    "cutaway:layer=3;": "“”",
    "cutaway:token=7": "token is “7”",
    "cutaway:token=7.36.1": "“7.36.1”",
    "cutaway:device=../../etc": "device is",
    "cutaway:device=intel:0;path=%2Fetc": "“path=%2Fetc”",
    "cutaway:operation=%1B%5B2J": "not text",
    "cutaway:operation=%FF": "not text",
    "cutaway:operation=a%E2%80%AEb": "not text",
    "cutaway:tensor=" + "a" * 257: "tensor is",
    "cutaway:tensor=" + "a" * LONGEST_LINK: "characters",
    "cutaway:__class__=1": "“__class__=1”",
}


@pytest.mark.parametrize("link", BROKEN)
def test_a_broken_link_is_refused_in_a_sentence(qapp: object, link: str) -> None:
    selection = Selection()
    selection.select_layer(1)
    with pytest.raises(BadLink, match=".") as error:
        selection.follow(link)
    said = str(error.value)
    assert BROKEN[link] in said
    assert said.isprintable()
    assert len(said) < 200
    assert selection.now == Selected(layer=1), "and changes nothing"


@given(st.text(max_size=80))
def test_any_text_is_followed_or_refused(text: str) -> None:
    for link in (text, f"cutaway:{text}", f"cutaway:operation={text}", f"cutaway:tensor={text}"):
        said, selected = "", None
        try:
            selected = selected_of(link)
        except BadLink as error:
            said = str(error)
        assert said.isprintable()
        assert bool(said) == (selected is None)
        assert selected is None or selected_of(link_of(selected)) == selected
