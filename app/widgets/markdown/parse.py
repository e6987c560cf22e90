"""Markdown text to a flat list of blocks, by markdown-it.

Lists and quotations are taken apart: each paragraph, heading, code block and table in them is a
block of its own that knows its indentation and marker. So where a text grows, only its last block
changes, however long the list is that it stands in. Inline HTML is shown as text, images are
links to what they would show, bare addresses are links; nothing is ever fetched. Lines keep their
indentation, for code that nobody fenced.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from linkify_it import LinkifyIt
from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline, newline
from markdown_it.token import Token

from app.widgets.markdown.tex import formulas
from app.widgets.markdown.typeset import Formula

Align = Literal["left", "center", "right"]
BULLETS = "•◦▪"
PLAIN_LINES = 100

TASKS = {"[ ] ": "☐", "[x] ": "☑", "[X] ": "☑"}


def _break_line(state: StateInline, silent: bool) -> bool:
    """A new line, whose spaces are kept."""
    begin = state.pos
    if not newline(state, silent):
        return False
    state.pos = begin + 1
    return True


def _as_typed(address: str) -> str:
    """Return an autolink's address as it was typed, not decoded."""
    return address


def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": True})
    parser.enable(["table", "strikethrough", "linkify"])
    parser.inline.ruler.at("newline", _break_line)
    formulas(parser)
    only_full = {"fuzzy_link": False, "fuzzy_email": False, "fuzzy_ip": False}
    parser.linkify = LinkifyIt(options=only_full)
    for scheme in ("ftp:", "//", "mailto:"):
        parser.linkify.add(scheme, None)
    parser.normalizeLinkText = _as_typed  # type: ignore[method-assign, assignment]
    return parser


_parser = _make_parser()


class Span(NamedTuple):
    """Text of one look; `href` makes it a link, `formula` a picture (its text is the source)."""

    text: str
    bold: bool = False
    italic: bool = False
    strike: bool = False
    code: bool = False
    href: str = ""
    formula: Formula | None = None


Spans = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A piece of a text as it stands on its own lines.

    `indent` counts lists around it, `quotes` quotations; `marker` is the list's, before its first
    line. `level` is a heading's. `close` says that little space is above, as in a dense list.
    `plain` is text as it was typed. Code has `language` and `code`, a table `rows` of cells, the
    first row its head. `line` is the source's on which it begins; blocks that differ in nothing
    else are the same.
    """

    kind: Literal["text", "plain", "heading", "code", "table", "rule", "math"]
    spans: Spans = ()
    level: int = 0
    indent: int = 0
    quotes: int = 0
    marker: str = ""
    close: bool = False
    language: str = ""
    code: str = ""
    rows: tuple[tuple[Spans, ...], ...] = ()
    aligns: tuple[Align, ...] = ()
    line: int = field(default=0, compare=False)


class Item(NamedTuple):
    """Where an item of a list begins: its line, and what number it has (0: a bullet)."""

    line: int
    number: int


class TopLevel(NamedTuple):
    """One top-level construct of CommonMark: its first line, its blocks and, of a list, items."""

    line: int
    blocks: list[TextBlock]
    items: list[Item]


def parse(
    text: str, env: dict[str, Any] | None = None, within: Item | None = None, above: int = 0
) -> list[TopLevel]:
    """The top-level constructs of a text. `env` keeps link definitions for the next call;
    `within` says that the text begins in a list, with this item. `above` lines stand before it.
    """
    tokens = _parser.parse(text, {} if env is None else env)
    parts: list[TopLevel] = []
    start = 0
    for end, token in enumerate(tokens, 1):
        if token.level == 0 and token.nesting <= 0:
            resumed = within if not parts and token.type.endswith("_list_close") else None
            blocks = list(_blocks(tokens[start:end], resumed, above))
            items = _items(tokens[start:end], resumed)
            parts.append(TopLevel(_line(tokens[start]), blocks, items))
            start = end
    return parts


def plain(text: str) -> list[TextBlock]:
    """A text as it was typed, as blocks of several lines each."""
    lines = text.split("\n") if text else []
    parts = ["\n".join(lines[n : n + PLAIN_LINES]) for n in range(0, len(lines), PLAIN_LINES)]
    return [TextBlock("plain", (Span(part),), close=n > 0) for n, part in enumerate(parts)]


def _line(token: Token) -> int:
    return token.map[0] if token.map else 0


def _items(tokens: list[Token], resumed: Item | None) -> list[Item]:
    """The items of a top-level list."""
    if not tokens[0].type.endswith("_list_open"):
        return []
    ordered = tokens[0].type == "ordered_list_open"
    first = resumed.number if resumed is not None else int(tokens[0].attrs.get("start", 1))
    begun = [token for token in tokens if token.level == 1 and token.type == "list_item_open"]
    return [Item(_line(token), first + n if ordered else 0) for n, token in enumerate(begun)]


def _blocks(tokens: list[Token], resumed: Item | None, above: int) -> Iterator[TextBlock]:
    lists: list[int | None] = []  # the next number of each list around, None for bullets
    quotes, marker, line = 0, "", above
    after_item = resumed is not None  # the next block follows one of the same list
    for at, token in enumerate(tokens):
        line = max(line, above + _line(token))
        base = TextBlock("text", indent=len(lists), quotes=quotes, marker=marker, line=line)
        made: TextBlock | None = None
        match token.type:
            case "bullet_list_open":
                lists.append(None)
            case "ordered_list_open":
                begun = resumed is not None and token.level == 0
                start = resumed.number if resumed and begun else int(token.attrs.get("start", 1))
                lists.append(start)
            case "bullet_list_close" | "ordered_list_close":
                lists.pop()
            case "list_item_open":
                marker, lists[-1] = _marker(lists)
            case "list_item_close":
                if marker:  # an item without content still shows
                    made = replace(base, close=after_item)
            case "blockquote_open":
                quotes += 1
            case "blockquote_close":
                quotes -= 1
            case "inline" if tokens[at - 1].type in ("paragraph_open", "heading_open"):
                before = tokens[at - 1]
                spans = _spans(token)
                if marker:
                    base, spans = _task(base, spans)
                made = replace(base, spans=spans, close=before.hidden and after_item)
                if before.type == "heading_open":
                    made = replace(made, kind="heading", level=int(before.tag[1:]))
            case "fence" | "code_block":
                language = token.info.split()[0] if token.info.strip() else ""
                code = token.content.removesuffix("\n")
                made = replace(base, kind="code", language=language, code=code)
            case "math_block":
                span = _formula(token)
                made = replace(base, kind="math" if span.formula else "text", spans=(span,))
            case "hr":
                made = replace(base, kind="rule")
            case "table_open":
                rows, aligns = _table(tokens[at:])
                made = replace(base, kind="table", rows=rows, aligns=aligns)
        if made is not None:
            yield made
            marker, after_item = "", bool(lists)


def _marker(lists: list[int | None]) -> tuple[str, int | None]:
    number = lists[-1]
    if number is None:
        return BULLETS[min(len(lists), len(BULLETS)) - 1], None
    return f"{number}.", number + 1


def _task(item: TextBlock, spans: Spans) -> tuple[TextBlock, Spans]:
    """An item that begins with `[ ]` or `[x]` has a box in place of its bullet."""
    box = TASKS.get(spans[0].text[:4], "") if spans and not spans[0].code else ""
    if not box:
        return item, spans
    rest = spans[0]._replace(text=spans[0].text[4:])
    if item.marker in BULLETS:
        return replace(item, marker=box), (rest, *spans[1:])
    return item, (rest._replace(text=f"{box} {rest.text}"), *spans[1:])


def _formula(token: Token) -> Span:
    """One that is still being written is only its source."""
    formula = Formula(token.content, bool(token.meta["display"]))
    return Span(str(token.meta["source"]), formula=None if token.meta.get("open") else formula)


def _table(tokens: list[Token]) -> tuple[tuple[tuple[Spans, ...], ...], tuple[Align, ...]]:
    rows: list[tuple[Spans, ...]] = []
    row: list[Spans] = []
    aligns: list[Align] = []
    for token in tokens:
        match token.type:
            case "table_close":
                break
            case "th_open":
                style = str(token.attrs.get("style", ""))
                aligns.append(
                    "right" if "right" in style else "center" if "center" in style else "left"
                )
            case "inline":
                row.append(_spans(token))
            case "tr_close":
                rows.append(tuple(row))
                row = []
    return tuple(rows), tuple(aligns)


def _spans(inline: Token) -> Spans:
    spans: list[Span] = []
    look = Span("")
    for token in inline.children or ():
        match token.type:
            case "strong_open" | "strong_close":
                look = look._replace(bold=token.nesting > 0)
            case "em_open" | "em_close":
                look = look._replace(italic=token.nesting > 0)
            case "s_open" | "s_close":
                look = look._replace(strike=token.nesting > 0)
            case "link_open":
                look = look._replace(href=str(token.attrs.get("href", "")))
            case "link_close":
                look = look._replace(href="")
            case "softbreak" | "hardbreak":  # models mean the line breaks that they write
                spans.append(look._replace(text="\n"))
            case "math_inline":
                made = _formula(token)
                spans.append(look._replace(text=made.text, formula=made.formula))
            case "code_inline":
                spans.append(look._replace(text=token.content, code=True))
            case "image":
                source = str(token.attrs.get("src", ""))
                shown = token.content or source
                spans.append(look._replace(text=f"🖼 {shown}", href=look.href or source))
            case _ if token.content:
                spans.append(look._replace(text=token.content))
    return tuple(spans)
