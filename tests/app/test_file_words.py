"""Files are named without their folders where a person reads of them."""

import pytest

from app.words import without_folders

TEXTS = (
    ("/models/ann/models/a.gguf: not a GGUF file", "a.gguf: not a GGUF file"),
    ("/models/ann b/My Models/My model v1.2.gguf: cut off", "My model v1.2.gguf: cut off"),
    ("cannot read /m/a.gguf; choose another", "cannot read a.gguf; choose another"),
    ("“/m/x/a.gguf” and '/m/b.gguf'", "“a.gguf” and 'b.gguf'"),
    ("moved /m/a.json to /m/old/b.json", "moved a.json to b.json"),
    (r"C:\Models\Ann\a.gguf: not a GGUF file", "a.gguf: not a GGUF file"),
    # no files: folders, addresses, rates and words with a stroke
    ("needs 93 MB in /models/ann/models, where 1 MB are free", None),
    ("https://huggingface.co/org/repo.gguf answered 404", None),
    ("the server at http://a.example/v1/models.json is busy", None),
    ("8.5 t/s and/or 3.2 tokens", None),
    ("intel:0: no room for cache: 512.0 MiB wanted", None),
)


@pytest.mark.parametrize(("text", "shown"), TEXTS)
def test_files_lose_their_folders_and_nothing_else_does(text: str, shown: str | None) -> None:
    assert without_folders(text) == (text if shown is None else shown)
