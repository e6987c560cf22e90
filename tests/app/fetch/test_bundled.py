"""The model that comes with the program is there, small, and found by its name."""

from pathlib import Path

import pytest

from app.fetch import bundled
from app.library import resolve
from engine.gguf import open_gguf

FILES = (bundled.model(), bundled.projector())
MOST_BYTES = 8_000_000


@pytest.mark.smoke
def test_its_files_are_of_one_model_and_small() -> None:
    assert sum(path.stat().st_size for path in FILES) <= MOST_BYTES
    with open_gguf(FILES[0]) as text, open_gguf(FILES[1]) as tower:
        assert text.metadata.get("general.architecture", str) == "gemma3"
        assert tower.metadata.get("clip.projector_type", str) == "gemma3"
        widths = (
            text.metadata.get("gemma3.embedding_length", int),
            tower.metadata.get("clip.vision.projection_dim", int),
        )
        assert widths[0] == widths[1]


def test_it_has_a_name_that_a_file_of_ones_own_takes_over(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTAWAY_MODELS", str(own_home))
    assert resolve(bundled.NAME) == bundled.model()
    own = own_home / f"{bundled.NAME}.gguf"
    own.write_bytes(b"GGUF")
    assert resolve(bundled.NAME) == own
