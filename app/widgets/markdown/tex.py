"""Where mathematics stands in Markdown: `$…$`, `$$…$$`, `\\(…\\)` and `\\[…\\]`.

Rules for markdown-it. A formula has at most LONGEST characters and no empty line, so that looking
for its end is bounded, and a text that grows is read as the whole one is.
"""

import logging
import re
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

LONGEST = 2000
_PAIRS = (("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$"))
_DISPLAYED = ("$$", "\\[")
_STRAY = ("\\(", "\\)", "\\[", "\\]")


def formulas(parser: MarkdownIt) -> None:
    """Add both rules: tokens `math_inline` and `math_block` with the TeX as `content`, the
    opening as `markup`, and whether it stands by itself (`meta["display"]`).
    """
    parser.inline.ruler.before("escape", "math_inline", _inline)
    parser.block.ruler.before(
        "fence", "math_block", _block, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )


def _inline(state: StateInline, silent: bool) -> bool:
    source, begin = state.src, state.pos
    if source[begin] not in "$\\":
        return False
    for opening, closing in _PAIRS:
        if not source.startswith(opening, begin):
            continue
        start = begin + len(opening)
        end = _end(source, start, min(state.posMax, start + LONGEST), closing)
        tex = source[start:end].strip() if end >= 0 else ""
        if not tex or (opening == "$" and not _is_formula(source, begin, end)):
            continue
        if not silent:
            token = state.push("math_inline", "math", 0)
            token.content, token.markup = tex, opening
            token.meta = {"display": opening in _DISPLAYED, "source": source[begin:end] + closing}
        state.pos = end + len(closing)
        return True
    return _stray(state, silent)


def _stray(state: StateInline, silent: bool) -> bool:
    """A bracket of no formula keeps its backslash."""
    bracket = state.src[state.pos : state.pos + 2]
    if bracket not in _STRAY:
        return False
    if not silent:
        state.pending += bracket
    state.pos += 2
    return True


def _end(source: str, start: int, stop: int, closing: str) -> int:
    """Where `closing` stands next without a backslash before it; -1 where it does not."""
    at = source.find(closing, start, stop)
    while at > 0 and closing[0] == "$" and source[at - 1] == "\\":
        at = source.find(closing, at + 1, stop)
    return at


def _is_formula(source: str, begin: int, end: int) -> bool:
    """Return whether two dollar signs enclose a formula, rather than amounts of money."""
    inside, after = source[begin + 1 : end], source[end + 1 : end + 2]
    before = source[begin - 1 : begin]
    edges = inside[0].isspace() or inside[-1].isspace()
    return not (edges or before.isalnum() or after.isalnum())


def _block(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    if state.is_code_block(start_line):
        return False
    begin = state.bMarks[start_line] + state.tShift[start_line]
    first = state.src[begin : state.eMarks[start_line]]
    opening = next((o for o in _DISPLAYED if first.startswith(o)), "")
    if not opening:
        return False
    closing = dict(_PAIRS)[opening]
    last, closed = _last_line(state, start_line, end_line, closing)
    source = state.getLines(start_line, last + 1, state.blkIndent, False).strip()
    inner = source[2:-2] if closed else source[2:]
    if last < 0 or closing in inner or not inner.strip():
        return False
    if silent:
        return True
    state.line = last + 1
    token = state.push("math_block", "math", 0)
    token.content, token.markup, token.block = inner.strip(), opening, True
    token.meta = {"display": True, "source": source, "open": not closed}
    token.map = [start_line, state.line]
    return True


def _last_line(state: StateBlock, start: int, end: int, closing: str) -> tuple[int, bool]:
    """The line that ends with `closing`. Where the text ends before it does, the last one:
    more may come. -1 where it is no formula.
    """
    begin = state.bMarks[start] + state.tShift[start]
    for line in range(start, end):
        if line > start and (state.isEmpty(line) or state.sCount[line] < state.blkIndent):
            return -1, False
        if state.eMarks[line] - begin > LONGEST:
            return -1, False
        text = state.src[begin : state.eMarks[line]].rstrip()
        if text.endswith(closing) and len(text) >= 4:
            return line, True
    return (end - 1, False) if end == state.lineMax else (-1, False)


SIZE = 48  # pixels of the font that pictures are made with
WIDEST, HIGHEST = 200.0, 60.0  # times the font's size
MOST_WORK = 4000  # symbols, each twice as much for every group around it
_GROUPS = ("mrow", "mtd")
_MACROS = ("\\def", "\\newcommand", "\\renewcommand", "\\providecommand", "\\let", "\\Declare")
# An environment with an exponent or an index, which the library takes only in braces.
_RAISED = re.compile(r"\\begin\{(\w+)\}(?:(?!\\begin).)*?\\end\{\1\}(?=\s*[\^_])", re.DOTALL)
_PARTS = ("svg", "g", "path", "rect")
_one_at_a_time = threading.Lock()  # the library keeps state of its own


class Formula(NamedTuple):
    """TeX; `display` where it stands by itself and may be high."""

    tex: str
    display: bool = False


class FormulaPicture(NamedTuple):
    """Black strokes as SVG. Sizes are in times of the font's size, measured from the base line."""

    svg: bytes
    width: float
    ascent: float
    descent: float


def typeset(formula: Formula) -> FormulaPicture | None:
    """Its picture; None where it is no TeX, or too much of it."""
    with _one_at_a_time:
        try:
            return typeset_unguarded(formula)
        except Exception as error:  # noqa: BLE001  whatever a library makes of any text
            logging.getLogger("window.tex").debug("%r: %r", formula.tex, error)
            return None


def typeset_all(formulas: Iterable[Formula]) -> dict[Formula, FormulaPicture | None]:
    """Pictures of several."""
    return {formula: typeset(formula) for formula in formulas}


def typeset_unguarded(formula: Formula) -> FormulaPicture | None:
    """Typeset one formula, like `typeset`; raises whatever the library raises."""
    if any(macro in formula.tex for macro in _MACROS):  # they multiply
        return None
    from latex2mathml.converter import convert_to_element

    tex = _RAISED.sub(r"{\g<0>}", formula.tex)
    if _work(convert_to_element(tex)) > MOST_WORK:
        return None
    from ziamath.config import config
    from ziamath.zmath import Latex

    config.svg2 = False
    drawn = Latex(tex, size=SIZE, inline=not formula.display).svg()
    root = ET.fromstring(drawn)
    left, top, width, height = (float(part) / SIZE for part in root.attrib["viewBox"].split())
    plain = all(part.tag.rpartition("}")[2] in _PARTS for part in root.iter())
    if not plain or not (0 < width <= WIDEST and 0 < height <= HIGHEST):
        return None
    return FormulaPicture(drawn.encode(), width, -top, height + top)


def _work(element: ET.Element, weight: int = 1) -> int:
    """How long drawing will take: the library walks through each group twice."""
    if element.tag.rpartition("}")[2] in _GROUPS:
        weight *= 2
    if weight > MOST_WORK:
        return weight
    return weight + sum(_work(child, weight) for child in element)
