"""Markdown text to a flat list of blocks, by markdown-it.

Lists and quotations are taken apart: each paragraph, heading, code block and table in them is a
block of its own that knows its indentation and marker. So where a text grows, only its last block
changes, however long the list is that it stands in. Inline HTML is shown as text, images are
links to what they would show, bare addresses are links; nothing is ever fetched. Lines keep their
indentation, for code that nobody fenced.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from linkify_it import LinkifyIt
from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline, newline
from markdown_it.token import Token

from app.widgets.markdown.cuts import (
    Piece,
    Place,
    continue_paragraph,
    cut_long_blocks,
    pieces,
    rows_of_piece,
)
from app.widgets.markdown.tex import Formula, formulas

Align = Literal["left", "center", "right"]
BULLETS = "•◦▪"
SHORTEST_SHARE = 0.05  # of the width of a table

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
    cut_long_blocks(parser)
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
    first row its head. A long text, code or table is several blocks: `joint` is what stands
    between a piece and the one above it (None: it begins here), `more` says that the block below
    is the next piece of the same code, `shares` are the widths of a table's columns. `start` is
    the character of the source at which it or its line begins; blocks that differ in nothing else
    are the same.
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
    shares: tuple[float, ...] = ()
    joint: str | None = None
    more: bool = False
    start: int = field(default=0, compare=False)

    def begin(self) -> int:
        """Return `start`, as a key to search by."""
        return self.start

    @property
    def space(self) -> str:
        """The text between the block above and this one where both are copied."""
        return self.joint if self.joint is not None else "\n" if self.close else "\n\n"


class Item(NamedTuple):
    """Where an item of a list begins, and what number it has (0: a bullet)."""

    start: int
    number: int


class CutTable(NamedTuple):
    """A table that goes on: the source of its head and delimiter row, and its columns' shares."""

    head: str
    shares: tuple[float, ...]


class CutParagraph(NamedTuple):
    """A paragraph that goes on, with what stood between its pieces."""

    joint: str


class CutCode(NamedTuple):
    """Fenced code that goes on: the line that opened it, and what stood between its pieces."""

    fence: str
    joint: str

    @property
    def can_end(self) -> str:
        """The shortest beginning of a line that might end the code."""
        return self.fence[:3]


Within = Item | CutTable | CutParagraph | CutCode | None


class TopLevel(NamedTuple):
    """One top-level construct of CommonMark: where it begins, its blocks and, of a list, items."""

    start: int
    blocks: list[TextBlock]
    items: list[Item]


def parse(
    text: str, env: dict[str, Any] | None = None, within: Within = None, above: int = 0
) -> list[TopLevel]:
    """The top-level constructs of a text. `env` keeps link definitions for the next call;
    `within` is the list (its item), table, paragraph or code in which the text begins. `above`
    characters stand before it.
    """
    env = {} if env is None else env
    continue_paragraph(env, isinstance(within, CutParagraph))
    head = _head(within)
    starts = [above] * (1 + head.count("\n"))
    starts += [above + found.end() for found in re.finditer("\n", text)]
    tokens = _parser.parse(head + text, env)
    parts: list[TopLevel] = []
    first = 0
    for end, token in enumerate(tokens, 1):
        if token.level == 0 and token.nesting <= 0:
            piece, first = tokens[first:end], end
            resumed = within if not parts else None
            blocks = list(_blocks(piece, resumed, starts))
            begin = starts[_line(piece[0])]
            parts.append(TopLevel(begin, blocks, _items(piece, resumed, starts)))
    return parts


def _head(within: Within) -> str:
    """Return the lines that make a parser begin within a construct."""
    if isinstance(within, CutTable):
        return within.head
    return within.fence if isinstance(within, CutCode) else ""


def plain_block(text: str, piece: Piece) -> TextBlock:
    """A piece of a text, as it was typed."""
    spans = (Span(text[piece.first : piece.last]),)
    return TextBlock("plain", spans, joint=piece.joint, start=piece.first)


def _line(token: Token) -> int:
    return token.map[0] if token.map else 0


def _items(tokens: list[Token], resumed: Within, starts: list[int]) -> list[Item]:
    """The items of a top-level list."""
    if not tokens[0].type.endswith("_list_open"):
        return []
    ordered = tokens[0].type == "ordered_list_open"
    first = int(tokens[0].attrs.get("start", 1))
    if isinstance(resumed, Item):
        first = resumed.number
    begun = [token for token in tokens if token.level == 1 and token.type == "list_item_open"]
    return [
        Item(starts[_line(token)], first + n if ordered else 0) for n, token in enumerate(begun)
    ]


def _blocks(tokens: list[Token], resumed: Within, starts: list[int]) -> Iterator[TextBlock]:
    lists: list[int | None] = []  # the next number of each list around, None for bullets
    quotes, marker, start = 0, "", starts[0]
    item = resumed if isinstance(resumed, Item) and tokens[0].type.endswith("_list_open") else None
    after_item = item is not None  # the next block follows one of the same list
    opening = tokens[0]
    for at, token in enumerate(tokens):
        start = max(start, starts[_line(token)])
        base = TextBlock("text", indent=len(lists), quotes=quotes, marker=marker, start=start)
        made: TextBlock | None = None
        match token.type:
            case "bullet_list_open":
                lists.append(None)
            case "ordered_list_open":
                begun = item is not None and token.level == 0
                lists.append(item.number if item and begun else int(token.attrs.get("start", 1)))
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
            case "paragraph_open" | "heading_open":
                opening = token
            case "inline" if tokens[at - 1] is opening or "piece" in token.meta:
                made = _text(base, opening, token, close=opening.hidden and after_item)
                made = _joined(made, token, resumed, starts)
            case "fence" | "code_block":
                *above, made = _code_pieces(base, token, resumed, starts)
                yield from above
            case "math_block":
                span = _formula(token)
                made = replace(base, kind="math" if span.formula else "text", spans=(span,))
            case "hr":
                made = replace(base, kind="rule")
            case "table_open":
                rows, aligns = _table(tokens[at:])
                table = replace(base, kind="table", rows=rows, aligns=aligns)
                *above, made = _table_pieces(table, resumed, starts[_line(token) :])
                yield from above
        if made is not None:
            yield made
            marker, after_item = "", bool(lists)


def _text(base: TextBlock, opening: Token, inline: Token, close: bool) -> TextBlock:
    """The text of a paragraph or heading."""
    spans = _spans(inline)
    if base.marker:
        base, spans = _task(base, spans)
    if opening.type == "heading_open":
        base = replace(base, kind="heading", level=int(opening.tag[1:]))
    return replace(base, spans=spans, close=close)


def _joined(block: TextBlock, inline: Token, resumed: Within, starts: list[int]) -> TextBlock:
    """A piece of a paragraph, with what stands between it and the one above."""
    piece: Place | None = inline.meta.get("piece")
    if piece is not None:
        block = replace(block, start=starts[piece.line] + piece.column, joint=piece.joint)
    if isinstance(resumed, CutParagraph) and block.joint is None:
        block = replace(block, joint=resumed.joint)
    return block


def _table_pieces(table: TextBlock, within: Within, starts: list[int]) -> Iterator[TextBlock]:
    """A table as blocks of some rows each; `starts` are of its lines, delimiter row included."""
    resumed = within if isinstance(within, CutTable) else None
    most = rows_of_piece(len(table.aligns))
    if len(table.rows) <= most and resumed is None:
        yield table
        return
    shares = resumed.shares if resumed is not None else _shares(table.rows[:most])
    head = 1 if resumed is not None else 0  # the head was of the piece before
    for first in range(head, len(table.rows), most):
        yield replace(
            table,
            rows=table.rows[first : first + most],
            shares=shares,
            joint=None if first == 0 else "\n",
            start=starts[first + 1 if first else 0],
        )


def _code_pieces(
    base: TextBlock, token: Token, within: Within, starts: list[int]
) -> Iterator[TextBlock]:
    """Code as blocks of some lines each."""
    resumed = within if isinstance(within, CutCode) else None
    code = token.content.removesuffix("\n")
    whole = replace(base, kind="code", language=next(iter(token.info.split()), ""))
    line = _line(token) + (token.type == "fence")
    found = list(pieces(code, goes_on=resumed is not None))
    for n, piece in enumerate(found):
        line += code.count("\n", found[n - 1].first, piece.first) if n else 0
        column = piece.first - (code.rfind("\n", 0, piece.first) + 1)
        block = replace(whole, code=code[piece.first : piece.last], more=piece is not found[-1])
        if n:
            block = replace(block, marker="", joint=piece.joint, start=starts[line] + column)
        elif resumed is not None:
            block = replace(block, joint=resumed.joint)
        yield block


def _shares(rows: Sequence[Sequence[Spans]]) -> tuple[float, ...]:
    """The parts of the width that columns take, by their longest cells."""
    columns = max(len(row) for row in rows)
    longest = [
        max(sum(len(span.text) for span in row[n]) + 2 for row in rows if n < len(row))
        for n in range(columns)
    ]
    least = max(SHORTEST_SHARE * sum(longest), 1)
    widths = [max(width, least) for width in longest]
    return tuple(width / sum(widths) for width in widths)


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
