"""Files as documents, by what they are. Reading takes long: call it in a thread."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from app.documents.document import PASSWORD, BadDocument, Document, plain_name
from app.documents.folder import read_folder
from app.documents.office import OFFICE, read_office
from app.documents.pdf import read_pdf
from app.language import mark, tr
from engine.units import MIB

LARGEST = 100 * MIB  # bytes of a file
LARGEST_TEXT = 32 * MIB  # bytes of a text: some 8 million tokens, more than any context
LOCKED = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # how a compound file begins ([MS-CFB] 2.2)
MOSTLY = 0.4  # of the bytes at odd or even places, which are 0 in UTF-16
# How files of other kinds begin.
FOREIGN = {
    b"\x89PNG": mark("a picture; rename it so that it ends in .png"),
    b"\xff\xd8\xff": mark("a picture; rename it so that it ends in .jpg"),
    b"GIF8": mark("a picture; rename it so that it ends in .gif"),
    b"GGUF": mark("a model; rename it so that it ends in .gguf"),
    b"\x7fELF": mark("a program"),
    b"MZ": mark("a program"),
    b"PK\x03\x04": mark("a ZIP archive; unpack it and attach the files"),
    b"\x1f\x8b": mark("a compressed file; unpack it and attach the files"),
    LOCKED[:4]: mark("an old Office file; save it as docx, xlsx or pptx"),
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
        if not about.st_size:
            raise BadDocument(name, tr("it is empty"))
        with path.open("rb") as file:
            begin = file.read(8)
            if begin.startswith(b"%PDF"):
                return read_pdf(path, name)
            if path.suffix.lower() in OFFICE:
                if begin == LOCKED:  # an encrypted file is packed like an old one
                    raise BadDocument(name, tr(PASSWORD))
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
    except FileNotFoundError:
        raise BadDocument(name, tr("it was moved or deleted; attach it again")) from None
    except PermissionError:
        raise BadDocument(name, tr("you have no permission to read it")) from None
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
    note, wide = "", _wide(data)
    try:
        text = data.decode(wide or "utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace")
        note = tr("read as Windows-1252, since it is not UTF-8")
    if "\0" in text or (wide and note):
        raise BadDocument(name, tr("it is not text; save it as plain text or as PDF"))
    return text.replace("\r\n", "\n").replace("\r", "\n"), note


def _wide(data: bytes) -> str:
    """The form of UTF-16 that a text is in, by its mark or by where its zeros are; else empty."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    begin = data[:4096]
    high, low = begin[0::2].count(0), begin[1::2].count(0)
    if not high and low > MOSTLY * len(begin) / 2:
        return "utf-16-le"
    return "utf-16-be" if not low and high > MOSTLY * len(begin) / 2 else ""
