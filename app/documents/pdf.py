"""Text and pictures of PDF pages, read by PDFium in a process of their own.

`python -m app.documents.pdf text PATH` writes one line of JSON, `Pages`; `python -m
app.documents.pdf picture PATH PAGE` a PNG. A file may be hostile, and PDFium is C++.
"""

import io
import subprocess
import sys
from pathlib import Path

import msgspec

from app.documents.document import DAMAGED, PAGE, PASSWORD, BadDocument, Document
from app.language import mark, tr, tr_n
from engine.system import limit_process

MOST_PAGES = 2000
MEMORY = 3 << 30  # bytes
PROCESSOR_S = 60
PATIENCE_S = 90.0
FEW = 10  # characters of a page that counts as scanned
EDGE = 1536  # pixels of a page's longer side


class Pages(msgspec.Struct, frozen=True):
    """The text of each page; `total` counts all pages of the file."""

    texts: list[str] = []
    total: int = 0
    problem: str = ""


def read_pdf(path: Path, name: str) -> Document:
    """Raises BadDocument."""
    try:
        pages = msgspec.json.decode(_child(name, "text", str(path)), type=Pages)
    except msgspec.MsgspecError:
        raise BadDocument(name, tr(DAMAGED)) from None
    if pages.problem:
        raise BadDocument(name, tr(pages.problem))
    notes = []
    if pages.total > len(pages.texts):
        notes.append(
            tr("the first {shown} of {total} pages", shown=len(pages.texts), total=pages.total)
        )
    scanned = tuple(n for n, text in enumerate(pages.texts, 1) if len(text.strip()) < FEW)
    if scanned:
        text = tr_n(
            "{n} of {total} pages has no text",
            "{n} of {total} pages have no text",
            len(scanned),
            total=pages.total,
        )
        notes.append(text)
    text = PAGE.join(pages.texts)
    return Document(name, "pdf", text, path.stat().st_size, tuple(notes), scanned)


def page_picture(path: Path, page: int) -> bytes:
    """A page, from 1, as a PNG. Raises BadDocument."""
    return _child(path.name, "picture", str(path), str(page))


def _child(name: str, *arguments: str) -> bytes:
    command = [sys.executable, "-m", "app.documents.pdf", *arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise BadDocument(
            name, tr("it took longer than {seconds:.0f} s", seconds=PATIENCE_S)
        ) from None
    if done.returncode:
        raise BadDocument(name, tr(DAMAGED))
    return done.stdout


def _read(path: str) -> Pages:
    import pypdfium2

    try:
        pdf = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        locked = "password" in str(error).lower()
        return Pages(problem=PASSWORD if locked else DAMAGED)
    texts = []
    for number in range(min(len(pdf), MOST_PAGES)):
        try:
            text = pdf[number].get_textpage().get_text_bounded()
        except pypdfium2.PdfiumError:
            text = ""
        texts.append(text.replace("\r\n", "\n").replace("\0", "").replace(PAGE, "\n"))
    return Pages(texts, len(pdf)) if texts else Pages(problem=mark("it has no pages"))


def _picture(path: str, page: int) -> bytes:
    import pypdfium2

    found = pypdfium2.PdfDocument(path)[page - 1]
    scale = EDGE / max(1.0, *found.get_size())
    out = io.BytesIO()
    found.render(scale=min(scale, 4.0)).to_pil().save(out, "PNG")
    return out.getvalue()


if __name__ == "__main__":
    limit_process(MEMORY, PROCESSOR_S)
    if sys.argv[1] == "text":
        sys.stdout.buffer.write(msgspec.json.encode(_read(sys.argv[2])))
    else:
        sys.stdout.buffer.write(_picture(sys.argv[2], int(sys.argv[3])))
