"""`cutaway inspect` on headers with odd parts: its output, or one line that says what is wrong."""

import json
from pathlib import Path

import pytest

from app import cli
from tests.engine.gguf.fuzzing import case


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_inspect(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "case.gguf"
    ends = set()
    for number in range(100):
        path.write_bytes(case(number))
        status = cli.main(["inspect", str(path), *words])
        shown = capsys.readouterr()
        assert status in (0, 1), number
        assert "unexpected" not in shown.out + shown.err, (number, shown)
        assert "\x1b" not in shown.out + shown.err, number
        if words:
            assert ("error" in json.loads(shown.out)) == (status == 1), number
        else:
            assert shown.err.count("\n") == status, (number, shown.err)
            assert bool(shown.out) == (status == 0), number
        ends.add(status)
    assert ends == {0, 1}
