"""Formulas in TeX as pictures, by ziamath: made without a network, bounded in work and size."""

import logging
import re
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from typing import NamedTuple

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
