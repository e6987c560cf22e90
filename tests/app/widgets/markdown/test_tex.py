"""Mathematics in Markdown: what is a formula, what it looks like, and that no TeX can do harm."""

import random

import pytest
from pytestqt.qtbot import QtBot

from app.widgets.markdown.parse import TextBlock, parse
from app.widgets.markdown.stream import Stream
from app.widgets.markdown.tex import (
    HIGHEST,
    LONGEST,
    WIDEST,
    Formula,
    FormulaPicture,
    typeset,
    typeset_unguarded,
)
from app.widgets.markdown.view import MarkdownView


def blocks(text: str) -> list[TextBlock]:
    return [block for part in parse(text) for block in part.blocks]


def formulas(text: str) -> list[Formula]:
    spans = (span for block in blocks(text) for span in block.spans)
    return [span.formula for span in spans if span.formula is not None]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("so $x^2$ is", [Formula("x^2")]),
        (r"so \(x_1\) is", [Formula("x_1")]),
        ("$$x$$", [Formula("x", True)]),
        ("$$\na\n- b\n$$", [Formula("a\n- b", True)]),
        ("\\[\na = b\n\\]", [Formula("a = b", True)]),
        (r"in a \[z\] line and $$q$$ too", [Formula("z", True), Formula("q", True)]),
        (r"**$b$** and `$c$` and \$d\$", [Formula("b")]),
        ("> - $$\n>   y\n>   $$", [Formula("y", True)]),
        ("$5 and $10, or US$5 and C$7", []),
        ("$a$b$ 10$ $ x $", []),
        ("$$ $$ and \\(\\)", []),
        ("```\n$x$\n```", []),
        ("$$ never closed\n- a list", []),
        ("$" + "x" * (LONGEST + 1) + "$", []),
    ],
)
def test_what_is_a_formula(text: str, found: list[Formula]) -> None:
    assert formulas(text) == found


def test_a_bracket_of_no_formula_keeps_its_backslash() -> None:
    text = "\\(unclosed, \\) alone, \\[ and \\]; but \\* is escaped"
    assert "".join(span.text for span in blocks(text)[0].spans) == text.replace("\\*", "*")


@pytest.mark.parametrize("seed", range(6))
def test_a_growing_text_with_formulas_ends_as_the_whole_one(seed: int) -> None:
    text = (
        "A\n\n$$\na\n- b\n= c\n$$\n\nB $x$ \\(y\\)\n\n- i\n\n  \\[\n  z\n  \\]\n- j\n\n$$ open\n- x"
    )
    stream, end, chance = Stream(), 0, random.Random(seed)
    while end < len(text):
        end = min(len(text), end + chance.randint(1, 7))
        stream.set_text(text[:end])
        while not stream.complete:
            stream.step()
    assert stream.blocks == blocks(text)


ORDINARY = (
    r"\frac{-b \pm \sqrt{b^2 - 4ac}}{2a}",
    r"\sum_{i=1}^n i = \frac{n(n+1)}{2}",
    r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}^{-1}",
    r"f(x) = \begin{cases} x^2 & x \geq 0 \\ -x & \text{otherwise} \end{cases}",
    r"\begin{aligned} (a+b)^2 &= (a+b)(a+b) \\ &= a^2 + 2ab + b^2 \end{aligned}",
    r"\hat{y} = \arg\max_{y} p_\theta(y \mid x), \quad x \in \mathbb{R}^n",
)


@pytest.mark.parametrize("tex", ORDINARY)
def test_ordinary_formulas_have_pictures(tex: str) -> None:
    picture = typeset(Formula(tex, True))
    assert picture is not None
    assert 1 < picture.width < 40
    assert 0.5 < picture.ascent < 5
    assert -0.2 < picture.descent < 5


def test_a_fraction_is_as_high_as_its_parts_and_stands_about_the_axis() -> None:
    small, large = typeset(Formula("x")), typeset(Formula(r"\frac{x}{x}", True))
    assert isinstance(small, FormulaPicture)
    assert isinstance(large, FormulaPicture)
    assert large.ascent + large.descent > 2 * (small.ascent + small.descent)
    assert large.descent > small.descent + 0.3


HOSTILE = (
    "x_{" * 60 + "y" + "}" * 60,
    r"\sqrt" * 400,
    r"\left(" * 200 + r"\right)" * 200,
    "{" * 900,
    "x^" * 900,
    r"\frac" * 400 + "1" * 800,
    r"\def\a{\a\a}\a",
    r"\newcommand{\a}{\b\b}\a",
    r"\begin{pmatrix}" * 40,
    r"\rule{100000em}{100000em}",
    r"\hspace{1e308em}x",
    "\\",
    "\x00\ud7ff\u202e",
    "&<>&amp;<!ENTITY>",
    "",
)


@pytest.mark.parametrize("tex", HOSTILE)
def test_hostile_tex_ends_soon_and_is_bounded(tex: str) -> None:
    picture = typeset(Formula(tex[:LONGEST], True))
    assert picture is None or (
        picture.width <= WIDEST and picture.ascent + picture.descent <= HIGHEST
    )


def test_what_would_take_long_is_never_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library doubles its work with every group: sixty of them would outlast the reader."""

    def begin(*args: object, **more: object) -> None:
        raise AssertionError("begun")

    monkeypatch.setattr("ziamath.zmath.Latex.__init__", begin)
    for tex in ("x_{" * 12 + "y" + "}" * 12, r"\left(" * 12 + r"\right)" * 12):
        assert typeset(Formula(tex)) is None
    with pytest.raises(AssertionError, match="begun"):
        typeset_unguarded(Formula("x^2"))


def test_a_formula_is_drawn_in_the_text_and_copied_as_it_was_written(qtbot: QtBot) -> None:
    view = MarkdownView("text")
    qtbot.addWidget(view)
    text = "The 😀 value $\\frac{a}{b}$ of\n\n$$\nx^2\n$$\n\nand $\\notclosed{$ raw"
    view.set_text(text)
    view.resize(400, view.heightForWidth(400))
    view.show()
    qtbot.waitUntil(lambda: "\ufffc" in view.laid[1].document.toPlainText(), timeout=60_000)
    assert view.laid[0].document.toPlainText() == "The 😀 value \ufffc of"
    assert "notclosed" in view.laid[2].document.toPlainText()
    view.select_all()
    assert view.selected_text == text
    start = len("The ..value ")
    assert view.laid[0].text(start, start + 4) == " $\\frac{a}{b}$ o"
    middle = view.laid[1]
    image = view.grab().toImage()
    rows = range(middle.top, middle.bottom)
    inked = [x for x in range(400) if len({image.pixel(x, y) for y in rows}) > 1]
    assert inked
    assert abs((inked[0] + inked[-1]) / 2 - 200) < 4  # centred


def test_a_formula_wider_than_the_text_is_made_smaller(qtbot: QtBot) -> None:
    view = MarkdownView("text")
    qtbot.addWidget(view)
    view.set_text("$$" + "+".join(f"x_{{{n}}}" for n in range(30)) + "$$")
    view.resize(300, view.heightForWidth(300))
    view.show()
    qtbot.waitUntil(lambda: view.laid[0].document.toPlainText() == "\ufffc", timeout=60_000)
    assert view.laid[0].document.idealWidth() <= 300
