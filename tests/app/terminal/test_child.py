"""Lines of a program that runs beside this one."""

from pathlib import Path

import pytest

from app.terminal.child import child

TEXT = '"\u65e5\u672c\u8a9e"'


def test_lines_are_utf8_whatever_the_code_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252")  # as on Windows, where it writes to a pipe
    said = tmp_path / "said.json"
    said.write_text(TEXT, "utf-8")
    with child("json.tool", "--no-ensure-ascii", str(said), timeout=60) as process:
        assert list(process.lines()) == [TEXT.encode()]
        assert process.problem() == ""
