"""Files as documents: the text that other people's writers wrote, or one plain sentence."""

import contextlib
import os
import random
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from app.documents.document import BadDocument, Document, plain_name, with_documents
from app.documents.reading import LARGEST, LARGEST_TEXT, decoded, read_document
from engine.errors import Cancelled, CutawayError
from engine.units import MIB

GOLDENS = Path(__file__).parents[2] / "goldens" / "documents"
TEXTS = {
    "report.docx": (
        "# Ferry report\n\nThe ferry Astrid carried 412 people in March — ä, ß, 日本.\n\n"
        "## Crew\n\n- Ida\n\n- Jonas\n\n"
        "| Month | People |\n| --- | --- |\n| March | 412 \\| full |\n"
    ),
    "fares.xlsx": (
        "## Fares\n\n| Route | Fare |  |  |\n| --- | --- | --- | --- |\n"
        "| North | 12.5 |  | a note |\n| South |  |  |  |\n| West | 7 |  |  |\n\n## Empty\n"
    ),
    "slides.pptx": (
        "## Slide 1\n\nOpening\nDoors at nine\n\n## Slide 2\n\nPlan\nBuild a quay\nPaint it\n"
    ),
    "harbour.odt": (
        "# Harbour\n\nShips wait outside.\n\n- rope\n- anchor\n\n"
        "| Berth | Ship |\n| --- | --- |\n| 1 | Astrid |\n"
    ),
    "pages.pdf": (
        "The keeper of the light is Marta Olsen.\nShe has kept it since 1981.\f\f"
        "The last page names the boat: Astrid."
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_others_wrote_is_read(name: str) -> None:
    document = read_document(GOLDENS / name)
    assert document.text == TEXTS[name]
    assert document.size == (GOLDENS / name).stat().st_size


def test_a_scanned_page_is_known() -> None:
    document = read_document(GOLDENS / "pages.pdf")
    assert document.scanned == (2,)
    assert document.notes == ("1 of 3 pages has no text",)
    assert document.part(3, 3).text == "The last page names the boat: Astrid."
    assert document.part(3, 3).name == "pages.pdf (pages 3–3)"


@pytest.mark.parametrize(
    ("data", "text", "noted"),
    [
        ("Grüße\n".encode(), "Grüße\n", False),
        ("\ufeffGrüße".encode(), "Grüße", False),
        (b"a\r\nb\rc", "a\nb\nc", False),
        ("Grüße 日本".encode("utf-16"), "Grüße 日本", False),
        (b"\xfe\xff" + "Grüße".encode("utf-16-be"), "Grüße", False),
        ("Grüße – „so“".encode("cp1252"), "Grüße – „so“", True),
        (b"", "", False),
    ],
)
def test_encodings(data: bytes, text: str, noted: bool) -> None:
    made, note = decoded(data, "a.txt")
    assert (made, bool(note)) == (text, noted)


def bad(path: Path) -> str:
    """The one sentence about a file that cannot be read."""
    with pytest.raises(CutawayError) as told:
        read_document(path)
    text = str(told.value)
    assert path.name[:20] in text
    assert not re.search(r"Traceback|Error\b|unexpected", text), text
    assert "\n" not in text
    return text


def test_what_is_no_text_is_named(tmp_path: Path) -> None:
    for name, data, says in (
        ("a.png", b"\x89PNG\r\n\x1a\n0000", "a picture"),
        ("a.gguf", b"GGUF\3\0\0\0", "a model"),
        ("a.exe", b"MZ\x90\0\3", "a program"),
        ("a.zip", b"PK\3\4\x14\0\0\0", "unpack it"),
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1", "save it as docx"),
        ("a.bin", b"some\0thing", "not text"),
    ):
        (tmp_path / name).write_bytes(data)
        assert says in bad(tmp_path / name)


def test_what_cannot_be_read_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "neither a file nor a folder" in bad(tmp_path / "pipe")
    assert "moved or deleted" in bad(tmp_path / "gone.txt")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    bad(tmp_path / "loop")
    with pytest.raises(CutawayError, match="not a file's name"):
        read_document(tmp_path / "a\0b")
    for name, size in (("large.txt", LARGEST_TEXT + 1), ("huge.pdf", LARGEST + 1)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)  # a hole takes no disk
        assert "attach a part of it" in bad(tmp_path / name)


@pytest.mark.parametrize("name", ["report.docx", "fares.xlsx", "slides.pptx", "harbour.odt"])
def test_damaged_office_files(name: str, tmp_path: Path) -> None:
    whole, draw = (GOLDENS / name).read_bytes(), random.Random(name)
    path = tmp_path / name
    for size in (4, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        bad(path)
    for _ in range(60):
        data = bytearray(whole)
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
        with contextlib.suppress(BadDocument):
            assert read_document(path).text


def test_damaged_pdfs(tmp_path: Path) -> None:
    whole = (GOLDENS / "pages.pdf").read_bytes()
    path = tmp_path / "cut.pdf"
    for data in (b"%PDF-1.7\n", whole[:40], b"%PDF" + os.urandom(5000)):
        path.write_bytes(data)
        bad(path)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.docx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * (150 * MIB))
    assert path.stat().st_size < MIB
    assert "unpacks to 150 MB" in bad(path)


def test_entities_do_not_grow(tmp_path: Path) -> None:
    path = tmp_path / "laughs.docx"
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10 if n else "ha"}">' for n in range(9))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("word/document.xml", f"<!DOCTYPE d [{entities}]><d><body>&a8;</body></d>")
    assert "it is damaged" in bad(path)


RULES = "*.log\n/build/\ncache\n!keep.log\ndocs/*.tmp\nsub/deep/\n# a comment\n**/gone.txt\n"
NAMES = (
    *("a.txt", "b.log", "keep.log", "build/x.txt", "src/build/y.txt", "cache/z.txt", "src/cache"),
    *("docs/a.tmp", "docs/sub/a.tmp", "sub/deep/a.txt", "sub/a.txt", "src/gone.txt", "ü.txt"),
)


def test_a_folder_has_what_git_would_track(tmp_path: Path) -> None:
    for name in NAMES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"in {name}")
    (tmp_path / ".gitignore").write_text(RULES)
    (tmp_path / "src" / ".gitignore").write_text("y.txt\n")
    (tmp_path / ".hidden").write_text("hidden")
    (tmp_path / "data.bin").write_bytes(b"\0\1")
    (tmp_path / "link.txt").symlink_to("/etc/passwd")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    listed = ["git", "-c", "core.quotePath=off", "ls-files", "-co", "--exclude-standard"]
    tracked = subprocess.run(listed, cwd=tmp_path, capture_output=True, text=True, check=True)
    there = {name for name in tracked.stdout.splitlines() if not Path(name).name.startswith(".")}
    os.mkfifo(tmp_path / "docs" / ".gitignore")  # whose writer is not waited for
    document = read_document(tmp_path)
    tree = document.text.split("\n\n")[0].splitlines()
    assert set(tree) == there - {"data.bin", "link.txt"}
    assert all(f"--- {name} ---\nin {name}" in document.text for name in tree)
    assert document.notes == ("1 file left out: binary or too large",)


def test_reading_a_folder_stops(tmp_path: Path) -> None:
    for n in range(20):
        (tmp_path / f"{n}.txt").write_text("x")
    with pytest.raises(Cancelled):
        read_document(tmp_path, stopped=lambda: True)


def test_a_prompt_has_the_question_first() -> None:
    one = Document("a\n\u202e.txt", "text", "first\n", 6)
    two = Document("b.pdf", "pdf", "page one\fpage two", 99)
    assert with_documents("What is it?", [one, two]) == (
        "What is it?\n\n--- File: a .txt ---\nfirst\n\n\n"
        "--- PDF File: b.pdf ---\npage one\npage two"
    )
    assert with_documents("", [one]) == "--- File: a .txt ---\nfirst\n"
    assert with_documents("only", []) == "only"


def test_names_are_one_line() -> None:
    assert plain_name("a\x1b[31m\nb\u202ec\ud800") == "a[31m bc"
    assert plain_name("\n") == "file"
    assert len(plain_name("x" * 5000)) == 200
