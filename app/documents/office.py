"""Text of docx, xlsx, pptx and odt files: ZIP archives of XML (ECMA-376, OASIS OpenDocument)."""

import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat

from app.documents.document import DAMAGED, PASSWORD, BadDocument, Document
from app.language import tr
from engine.units import MIB

MOST_UNPACKED = 100 * MIB
MOST_RATIO = 200
MOST_SHEETS = 200
Element = ElementTree.Element
BROKEN = (
    *(zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError, RuntimeError),
    *(ElementTree.ParseError, expat.ExpatError, ValueError),
)


def read_office(path: Path, name: str) -> Document:
    """Headings, lists and tables as Markdown. Raises BadDocument."""
    try:
        with zipfile.ZipFile(path) as archive:
            _check_sizes(archive, name)
            text = OFFICE[path.suffix.lower()](archive)
    except BROKEN as error:
        locked = "encrypted" in str(error)
        raise BadDocument(name, tr(PASSWORD if locked else DAMAGED)) from None
    if not text.strip():
        raise BadDocument(name, tr("it has no text; save it as PDF to send pictures of its pages"))
    return Document(name, "office", text.strip() + "\n", path.stat().st_size)


def _check_sizes(archive: zipfile.ZipFile, name: str) -> None:
    """Refuse a small file that would fill the memory."""
    infos = archive.infolist()
    unpacked = sum(info.file_size for info in infos)
    packed = max(1, sum(info.compress_size for info in infos))
    if unpacked > MOST_UNPACKED or (unpacked > MIB and unpacked / packed > MOST_RATIO):
        problem = tr(
            "it unpacks to {size} MB; at most {most} are read",
            size=unpacked // MIB,
            most=MOST_UNPACKED // MIB,
        )
        raise BadDocument(name, problem)


def _xml(archive: zipfile.ZipFile, member: str) -> Element:
    """A member without a document type, whose entities could grow without bound."""
    with archive.open(member) as file:
        data = file.read(MOST_UNPACKED + 1)
    if len(data) > MOST_UNPACKED:
        raise ValueError("a part is too large")
    _refuse_entities(data)
    return ElementTree.fromstring(data)


def _refuse_entities(data: bytes) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("a document type is not allowed")

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.Parse(data, True)


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _attribute(element: Element, name: str) -> str:
    found = (value for key, value in element.attrib.items() if key.rpartition("}")[2] == name)
    return next(found, "")


def _below(element: Element, tag: str) -> Iterator[Element]:
    return (child for child in element.iter() if _tag(child) == tag)


def _table(rows: list[list[str]]) -> str:
    """Markdown; the first row is its head."""
    width = max((len(row) for row in rows), default=0)
    if not width:
        return ""
    cells = [[_cell(cell) for cell in row] + [""] * (width - len(row)) for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    lines.insert(1, "|" + " --- |" * width)
    return "\n".join(lines)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def _docx(archive: zipfile.ZipFile) -> str:
    blocks = []
    body = next(_below(_xml(archive, "word/document.xml"), "body"), None)
    for element in body if body is not None else ():
        if _tag(element) == "p":
            blocks.append(_docx_paragraph(element))
        elif _tag(element) == "tbl":
            rows = [
                [" ".join(map(_docx_text, _below(cell, "p"))) for cell in row if _tag(cell) == "tc"]
                for row in element
                if _tag(row) == "tr"
            ]
            blocks.append(_table(rows))
    return "\n\n".join(block for block in blocks if block)


def _docx_paragraph(paragraph: Element) -> str:
    text = _docx_text(paragraph)
    style = next((_attribute(e, "val") for e in _below(paragraph, "pStyle")), "")
    heading = re.fullmatch(r"(?i)heading\s*([1-6])", style)
    if text and (heading or style.lower() == "title"):
        return "#" * (int(heading[1]) if heading else 1) + " " + text
    in_list = style.startswith("List") or any(True for _ in _below(paragraph, "numPr"))
    return f"- {text}" if text and in_list else text


def _docx_text(paragraph: Element) -> str:
    parts = []
    for element in paragraph.iter():
        tag = _tag(element)
        if tag == "t":
            parts.append(element.text or "")
        elif tag in ("tab", "br", "cr"):
            parts.append("\t" if tag == "tab" else "\n")
    return "".join(parts).strip()


def _xlsx(archive: zipfile.ZipFile) -> str:
    shared: list[str] = []
    if "xl/sharedStrings.xml" in archive.namelist():
        for entry in _below(_xml(archive, "xl/sharedStrings.xml"), "si"):
            shared.append("".join(t.text or "" for t in _below(entry, "t")))
    names = [_attribute(s, "name") for s in _below(_xml(archive, "xl/workbook.xml"), "sheet")]
    sheets = sorted(
        (n for n in archive.namelist() if re.fullmatch(r"xl/worksheets/sheet\d+\.xml", n)),
        key=lambda n: int(re.findall(r"\d+", n)[-1]),
    )
    blocks = []
    for at, member in enumerate(sheets[:MOST_SHEETS]):
        rows = [_xlsx_row(row, shared) for row in _below(_xml(archive, member), "row")]
        blocks.append(f"## {names[at] if at < len(names) else f'Sheet {at + 1}'}")
        blocks.append(_table([row for row in rows if any(row)]))
    return "\n\n".join(block for block in blocks if block)


def _xlsx_row(row: Element, shared: list[str]) -> list[str]:
    values: list[str] = []
    for cell in row:
        letters = re.match(r"[A-Z]{1,3}", _attribute(cell, "r"))
        at = _column(letters[0]) if letters else len(values)
        values += [""] * (at - len(values))
        kind = _attribute(cell, "t")
        tags = ("t",) if kind == "inlineStr" else ("v",)
        text = "".join(e.text or "" for e in cell.iter() if _tag(e) in tags)
        if kind == "s" and text.isdecimal() and int(text) < len(shared):
            text = shared[int(text)]
        values.append(text)
    return values


def _column(letters: str) -> int:
    at = 0
    for letter in letters:
        at = at * 26 + ord(letter) - ord("A") + 1
    return at - 1


def _pptx(archive: zipfile.ZipFile) -> str:
    slides = sorted(
        (n for n in archive.namelist() if re.fullmatch(r"ppt/slides/slide\d+\.xml", n)),
        key=lambda n: int(re.findall(r"\d+", n)[-1]),
    )
    blocks = []
    for number, member in enumerate(slides, 1):
        lines = [
            "".join(t.text or "" for t in _below(paragraph, "t")).strip()
            for paragraph in _below(_xml(archive, member), "p")
        ]
        blocks.append(f"## Slide {number}\n\n" + "\n".join(line for line in lines if line))
    return "\n\n".join(blocks)


def _odt(archive: zipfile.ZipFile) -> str:
    blocks = []
    text = next(_below(_xml(archive, "content.xml"), "text"), None)
    for element in text if text is not None else ():
        blocks.append(_odt_block(element))
    return "\n\n".join(block for block in blocks if block)


def _odt_block(element: Element) -> str:
    tag = _tag(element)
    if tag == "h":
        level = _attribute(element, "outline-level")
        return "#" * (int(level) if level in "123456" and level else 1) + " " + _odt_text(element)
    if tag == "list":
        items = (e for e in element if _tag(e) == "list-item")
        return "\n".join("- " + _odt_text(item) for item in items)
    if tag == "table":
        rows = [
            [_odt_text(cell) for cell in row if _tag(cell) == "table-cell"]
            for row in _below(element, "table-row")
        ]
        return _table(rows)
    return _odt_text(element)


def _odt_text(element: Element) -> str:
    parts = [element.text or ""]
    for child in element:
        tag = _tag(child)
        if tag == "tab":
            parts.append("\t")
        elif tag == "line-break":
            parts.append("\n")
        elif tag == "s":
            count = _attribute(child, "c")
            parts.append(" " * (min(int(count), 1000) if count.isdecimal() else 1))
        else:
            parts.append(_odt_text(child))
        parts.append(child.tail or "")
    return "".join(parts)


OFFICE: dict[str, Callable[[zipfile.ZipFile], str]] = {
    ".docx": _docx,
    ".xlsx": _xlsx,
    ".pptx": _pptx,
    ".odt": _odt,
}
"""How each is read, by a file's ending."""
