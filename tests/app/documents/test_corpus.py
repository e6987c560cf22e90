"""The corpus of files is read as it was written, or refused in one sentence."""

import re
from pathlib import Path

import pytest

from app.documents.document import BadDocument
from app.documents.reading import read_document
from tests.app.documents.corpus import CORPUS, Entry


@pytest.mark.parametrize("entry", CORPUS, ids=lambda entry: ascii(entry.name[:20]))
def test_read(entry: Entry, tmp_path: Path) -> None:
    path = tmp_path / entry.name
    entry.write(path)
    if entry.text is not None:
        document = read_document(path)
        assert document.text == entry.text
        assert entry.says in " ".join(document.notes)
        return
    with pytest.raises(BadDocument) as refused:
        read_document(path)
    sentence = str(refused.value)
    assert entry.says in sentence
    assert "\n" not in sentence
    assert not re.search(r"Traceback|Errno|Error\b|unexpected", sentence)
