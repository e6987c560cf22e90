"""The folder in which programs that share an engine meet."""

import pytest

from app.shared import place


def test_a_session_without_a_folder_for_it_gets_one_without_a_word(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert place.folder().name == "cutaway"
    assert not recwarn.list
