"""Long paragraphs and tables in pieces, so that none takes long to parse or to lay out.

A rule for markdown-it between its blocks and their inline text: a paragraph of more than WHOLE
letters becomes several, and a table too wide to be one is shown as its source.
"""

from collections.abc import Iterator
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, paragraph
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

WHOLE = 4000  # characters of a text that is not cut
LONGEST = 2000  # characters of a piece of a longer one
MOST_LINES = 50
MOST_CELLS = 80  # of a piece of a table
MOST_COLUMNS = 80
_NEAR = 500  # characters before the end of a piece in which a space is looked for
_CONTINUES = "cutaway_continues"


class Piece(NamedTuple):
    """A range of a text, and what stood between the piece before and this one."""

    first: int
    last: int
    joint: str | None = None


class Place(NamedTuple):
    """Where a piece of a paragraph begins in the source, and what stood before it."""

    line: int
    column: int
    joint: str | None


def pieces(text: str, goes_on: bool = False) -> Iterator[Piece]:
    """Cut a long text, or one that goes on after such a cut, after whole lines where there are
    some, else after a space, else anywhere.

    Where a piece ends depends on the text up to there only, so that a text that grows keeps its
    pieces.
    """
    first, joint = 0, None
    cut = goes_on or len(text) > WHOLE or text.count("\n") >= MOST_LINES
    while True:
        last = _end(text, first) if cut else len(text)
        yield Piece(first, last, joint)
        if last == len(text):
            return
        joint = "\n" if text[last] == "\n" else ""
        first = last + len(joint)


def _end(text: str, first: int) -> int:
    window = text[first : first + LONGEST]
    *lines, rest = window.split("\n", MOST_LINES)
    if len(lines) == MOST_LINES:
        return first + len(window) - len(rest) - 1
    if len(text) - first <= LONGEST:
        return len(text)
    last_break = window.rfind("\n")
    if last_break > LONGEST // 2:
        return first + last_break
    space = max(window.rfind(" ", LONGEST - _NEAR), window.rfind("\t", LONGEST - _NEAR))
    return first + (space + 1 if space >= 0 else LONGEST)


def rows_of_piece(columns: int) -> int:
    """The rows of a table that are one piece."""
    return max(4, MOST_CELLS // max(columns, 1))


def cut_long_blocks(parser: MarkdownIt) -> None:
    """Add the rules. Inline tokens that are pieces of a paragraph have a `Place` in `meta`."""
    parser.core.ruler.after("block", "pieces", _cut)
    parser.block.ruler.before("table", "continued", _continued)


def continue_paragraph(env: dict[str, object], continues: bool) -> None:
    """Make the next parse begin within a paragraph, whatever its first line looks like."""
    env[_CONTINUES] = continues


def _continued(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    if start_line or silent or not state.env.get(_CONTINUES):
        return False
    return paragraph(state, start_line, end_line, silent)


def _cut(state: StateCore) -> None:
    state.tokens = _without_wide_tables(state)
    goes_on = bool(state.env.get(_CONTINUES))
    made: list[Token] = []
    for token in state.tokens:
        if token.type == "inline" and made[-1].type in ("paragraph_open", "heading_open"):
            found = list(pieces(token.content, goes_on))
            made += _pieces_of(token, state.src, found) if len(found) > 1 else [token]
            goes_on = False
        else:
            made.append(token)
    state.tokens = made


def _pieces_of(inline: Token, source: str, found: list[Piece]) -> Iterator[Token]:
    lines, begin = inline.content.split("\n"), inline.map[0] if inline.map else 0
    above = source.split("\n", begin + len(lines))[begin : begin + len(lines)]
    for piece in found:
        line = inline.content.count("\n", 0, piece.first)
        indent = max(0, above[line].find(lines[line][:_NEAR]))
        column = piece.first - (inline.content.rfind("\n", 0, piece.first) + 1)
        place = Place(begin + line, indent + column, piece.joint)
        content = inline.content[piece.first : piece.last]
        yield inline.copy(content=content, children=[], meta={"piece": place})


def _without_wide_tables(state: StateCore) -> list[Token]:
    if not any(token.type == "table_open" for token in state.tokens):
        return state.tokens
    lines = state.src.split("\n")
    made: list[Token] = []
    begun = 0
    for token in state.tokens:
        made.append(token)
        if token.type == "table_open":
            begun = len(made) - 1
        elif token.type == "table_close" and _is_wide(made[begun:]):
            opening = made[begun].copy(type="paragraph_open", tag="p")
            first, last = opening.map or [0, 0]
            content = "\n".join(lines[first:last])
            inline = opening.copy(type="inline", nesting=0, content=content, children=[])
            closing = opening.copy(type="paragraph_close", nesting=-1)
            made[begun:] = [opening, inline, closing]
    return made


def _is_wide(table: list[Token]) -> bool:
    columns = sum(token.type == "th_open" for token in table)
    return columns > MOST_COLUMNS or any(len(token.content) > WHOLE for token in table)
