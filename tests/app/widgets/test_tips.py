"""Tool tips show what a stranger wrote, letter by letter."""

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtGui import Qt

import app
from app.widgets.tips import MOST, WIDTH, plain_tip
from tests.parsed import nodes

HOSTILE = (
    '<img src="file:///dev/zero">',
    "<b>x</b>",
    "a\n<img src='x'>",
    "&lt;img&gt;",
    "<!doctype html>",
    "<?xml version='1.0'?>",
    "  <a href='x'>y</a>",
    "<html><body>",
)
OURS = Path(app.__path__[0])


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_is_no_markup(text: str) -> None:
    shown = plain_tip(text)
    assert not Qt.mightBeRichText(shown)
    assert shown.replace("\u200b", "").split() == text.split()


@given(st.text(st.sampled_from("<>/!?&;ltbimgqa \n='\"")))
def test_nothing_becomes_markup(text: str) -> None:
    assert not Qt.mightBeRichText(plain_tip(text))


def test_a_tip_fits_the_screen() -> None:
    shown = plain_tip("x" * 70_000)
    assert max(map(len, shown.split("\n"))) <= WIDTH
    assert len(shown) <= MOST * 1.1


def test_tips_are_set_here_alone() -> None:
    """Nobody else sets a tip, and who gives one for ToolTipRole makes it plain."""
    others = []
    for path in OURS.rglob("*.py"):
        text = path.read_text("utf-8")
        own = path.name == "tips.py"
        if not own and any(word in text for word in ("setToolTip(", "QToolTip.", "setWhatsThis(")):
            others.append(path.name)
        if not own and "ToolTipRole" in text and "plain_tip(" not in text:
            others.append(path.name)
    assert others == []


def test_labels_are_plain() -> None:
    """A QLabel guesses whether its text is HTML: only `label` makes one with words of others."""
    made = set()
    for path in OURS.rglob("*.py"):
        text = path.read_text("utf-8")
        for node in nodes(ast.parse(text)) if "QLabel(" in text else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "QLabel":
                made.add((path.name, bool(node.args)))
    pictures = {("overlays.py", False), ("welcome.py", False), ("chooser_options.py", False)}
    links = {("chooser_fetch.py", False)}  # to terms that we know
    assert made == pictures | links | {("basics.py", True)}
