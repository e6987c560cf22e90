"""Files as documents, by what they are. Reading takes long: call it in a thread."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from app.documents.document import BadDocument, Document, plain_name
from app.documents.folder import read_folder
from app.documents.office import OFFICE, read_office
from app.documents.pdf import read_pdf
from app.language import mark, tr
from engine.units import MIB

LARGEST = 100 * MIB  # bytes of a file
LARGEST_TEXT = 32 * MIB  # bytes of a text: some 8 million tokens, more than any context
# How files of other kinds begin.
FOREIGN = {
    b"\x89PNG": mark("a picture"),
    b"\xff\xd8\xff": mark("a picture"),
    b"GIF8": mark("a picture"),
    b"GGUF": mark("a model"),
    b"\x7fELF": mark("a program"),
    b"MZ": mark("a program"),
    b"PK\x03\x04": mark("a ZIP archive; unpack it and attach the files"),
    b"\x1f\x8b": mark("a compressed file; unpack it and attach the files"),
    b"\xd0\xcf\x11\xe0": mark("an old Office file; save it as docx, xlsx or pptx"),
}


def never() -> bool:
    """Reading is not stopped."""
    return False


def read_document(path: Path, stopped: Callable[[], bool] = never) -> Document:
    """The text of a file or a folder. Raises BadDocument, and Cancelled once `stopped`."""
    name = plain_name(path.name or str(path))
    try:
        about = path.stat()
        if stat.S_ISDIR(about.st_mode):
            return read_folder(path, stopped)
        if not stat.S_ISREG(about.st_mode):  # a pipe or a device may never end
            raise BadDocument(name, tr("it is neither a file nor a folder"))
        if about.st_size > LARGEST:
            raise BadDocument(
                name, tr("it is larger than {size} MB; attach a part of it", size=LARGEST // MIB)
            )
        with path.open("rb") as file:
            begin = file.read(8)
            if begin.startswith(b"%PDF"):
                return read_pdf(path, name)
            if path.suffix.lower() in OFFICE:
                return read_office(path, name)
            for magic, what in FOREIGN.items():
                if begin.startswith(magic):
                    raise BadDocument(name, tr("it is {what}", what=tr(what)))
            if about.st_size > LARGEST_TEXT:
                problem = tr(
                    "a text may have {size} MB; attach a part of it", size=LARGEST_TEXT // MIB
                )
                raise BadDocument(name, problem)
            data = begin + file.read(LARGEST_TEXT + 1 - len(begin))
    except OSError as error:
        raise BadDocument(name, error.strerror or os.strerror(error.errno or 0)) from None
    except ValueError:  # a NUL in the path
        raise BadDocument(name, tr("this is not a file's name")) from None
    text, note = decoded(data, name)
    return Document(name, "text", text, len(data), (note,) if note else ())


def decoded(data: bytes, name: str) -> tuple[str, str]:
    """Bytes as text, and a note where their encoding is a guess. Line ends become LF.

    Raises BadDocument for a binary file.
    """
    note = ""
    try:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            text = data.decode("utf-16")
        else:
            text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        if b"\0" in data:
            raise BadDocument(name, tr("it is not text")) from None
        text = data.decode("cp1252", "replace")
        note = tr("read as Windows-1252, since it is not UTF-8")
    if "\0" in text:
        raise BadDocument(name, tr("it is not text"))
    return text.replace("\r\n", "\n").replace("\r", "\n"), note
