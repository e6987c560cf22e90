"""Blocks of Markdown, against markdown-it's own rendering and the rules of CommonMark."""

import html
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from app.widgets.markdown.parse import Span, TextBlock, parse
from app.widgets.markdown.stream import PlainStream, Stream

LONG = """# Title

A paragraph with **bold**, *both **here***, ~~gone~~ and `code`.
Its second line.

1. one
2. two
   - inner
   - second

     ```python
     def f():
         return 1
     ```
3. three

> quoted
> > deeper

| a | b |
|---|--:|
| 1 | 22 |
| x | `y` |

    indented code

---

Setext
======

<script>alert(1)</script> and <b>bold</b>

![cat](https://example.org/cat.png) [link](https://example.org "t")

```
unclosed fence
  keeps spaces
"""


def blocks(text: str) -> list[TextBlock]:
    return [block for part in parse(text) for block in part.blocks]


def words(made: list[TextBlock]) -> str:
    said = []
    for block in made:
        cells = [cell for row in block.rows for cell in row]
        spans = [*block.spans, *(span for cell in cells for span in (*cell, Span(" ")))]
        said.append("".join(span.text for span in spans) + block.code)
    return "".join(" ".join(said).split())


def test_the_words_are_those_of_the_html() -> None:
    rendered = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    page = rendered.render(LONG)
    page = re.sub(r'<img src="[^"]*" alt="([^"]*)" ?/?>', r"🖼 \1", page)
    shown = html.unescape(re.sub(r"<[^>]+>", " ", page))
    assert words(blocks(LONG)) == "".join(shown.split())


def test_lists_are_taken_apart_with_their_markers() -> None:
    made = blocks("3. a\n4. b\n   - c\n\n     d\n")
    seen = [(b.marker, b.indent, b.spans[0].text) for b in made]
    assert seen == [("3.", 1, "a"), ("4.", 1, "b"), ("◦", 2, "c"), ("", 2, "d")]


def test_an_item_without_content_shows_its_marker() -> None:
    assert [b.marker for b in blocks("- a\n-\n- c\n")] == ["•", "•", "•"]


def test_code_in_a_list_is_a_block_of_its_own() -> None:
    code = next(b for b in blocks(LONG) if b.kind == "code")
    assert (code.language, code.indent, code.code) == ("python", 2, "def f():\n    return 1")


def test_html_and_images_are_only_text() -> None:
    made = blocks('<img src="https://x/y.png">\n\n![cat](https://x/c.png)')
    assert "".join(span.text for span in made[0].spans) == '<img src="https://x/y.png">'
    assert made[1].spans == (Span("🖼 cat", href="https://x/c.png"),)


@pytest.mark.parametrize("address", ["javascript:alert(1)", "data:text/html,x", "vbscript:x"])
def test_links_that_run_something_are_no_links(address: str) -> None:
    assert not any(span.href for span in blocks(f"[x]({address})")[0].spans)


def test_tables_keep_alignment_and_looks() -> None:
    table = next(b for b in blocks(LONG) if b.kind == "table")
    assert table.aligns == ("left", "right")
    assert table.rows[2][1] == (Span("y", code=True),)


def test_plain_text_is_left_alone() -> None:
    stream = PlainStream()
    stream.set_text("# a\n *b*")
    stream.step()
    assert [block.spans for block in stream.blocks] == [(Span("# a\n *b*"),)]
    assert stream.complete


@pytest.mark.parametrize("seed", range(5))
def test_a_growing_text_ends_as_the_whole_one(seed: int) -> None:
    draw, stream, at = random.Random(seed), Stream(), 0
    text = LONG * 3
    while at < len(text):
        at += draw.randint(1, 30)
        before = list(stream.blocks)
        stream.set_text(text[:at])
        while not stream.complete:
            changed = stream.step()
            assert stream.blocks[:changed] == before[:changed]
            before = list(stream.blocks)
    assert stream.blocks == blocks(text)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab \n-*`>#|1.[]()_\t", max_size=80), st.integers(1, 79))
def test_any_text_ends_as_the_whole_one(text: str, cut: int) -> None:
    stream = Stream()
    for part in (text[:cut], text):
        stream.set_text(part)
        while not stream.complete:
            stream.step()
    assert stream.blocks == blocks(text)


def test_a_long_text_is_taken_in_steps() -> None:
    text, steps, stream = LONG * 60, 0, Stream()
    stream.set_text(text)
    while not stream.complete:
        stream.step()
        steps += 1
    assert steps > 10
    assert stream.blocks == blocks(text)


@pytest.mark.parametrize("marker", ["-", "1.", "%d."])
def test_a_long_list_is_the_same_in_pieces(marker: str) -> None:
    def item(n: int) -> str:
        mark = marker % n if "%" in marker else marker
        return f"{mark} item **{n}**\n" + (
            "   - inner\n\n     ```py\n     x\n     ```\n" * (n % 7 == 0)
        )

    text = "Before:\n\n" + "".join(item(n) for n in range(1, 200)) + "\nAfter.\n"
    stream = Stream()
    for end in range(0, len(text) + 40, 40):
        stream.set_text(text[:end])
        while not stream.complete:
            stream.step()
    whole = blocks(text)
    assert [(b.marker, b.spans, b.code, b.indent) for b in stream.blocks] == [
        (b.marker, b.spans, b.code, b.indent) for b in whole
    ]


def test_tasks_have_boxes() -> None:
    made = blocks("- [x] done\n- [ ] *open*\n- [X] [y] z\n- [x]nothing\n1. [x] third\n")
    assert [(b.marker, words([b])) for b in made] == [
        ("☑", "done"),
        ("☐", "open"),
        ("☑", "[y]z"),
        ("•", "[x]nothing"),
        ("1.", "☑third"),
    ]


def test_bare_addresses_are_links_called_what_they_are() -> None:
    text = "see https://example.org/a_(b)?c=%41. Or <http://xn--80ak6aa92e.com>, not ftp://x/y,"
    text += " www.example.org, a@example.org, file:///etc/passwd or `https://in.code`"
    spans = blocks(text)[0].spans
    links = [(span.text, span.href) for span in spans if span.href]
    assert links == [
        ("https://example.org/a_(b)?c=%41", "https://example.org/a_(b)?c=%41"),
        ("http://xn--80ak6aa92e.com", "http://xn--80ak6aa92e.com"),
    ]


def test_code_without_a_fence_keeps_its_indentation() -> None:
    text = "def f(x):\n    if x:\n\t    return 1"
    assert "".join(span.text for span in blocks(text)[0].spans) == text
    item = blocks("- one\n  two\n      three")[0]
    assert "".join(span.text for span in item.spans) == "one\ntwo\n    three"
