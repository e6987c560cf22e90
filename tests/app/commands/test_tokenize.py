"""`cutaway tokenize`."""

import json
from pathlib import Path

import pytest

from app.cli import main

pytestmark = pytest.mark.model_file


def ids(capsys: pytest.CaptureFixture[str], *words: str) -> list[int]:
    assert main(["tokenize", *words, "--json"]) == 0
    found: list[int] = json.loads(capsys.readouterr().out)
    return found


def test_json_is_a_list_of_ids(capsys: pytest.CaptureFixture[str], gemma3_path: Path) -> None:
    model = str(gemma3_path)
    assert ids(capsys, model, "--text", "Hello<eos>") == [2, 9259, 1]
    assert ids(capsys, model, "--text", "Hello<eos>", "--no-bos") == [9259, 1]
    plain = ids(capsys, model, "--text", "Hello<eos>", "--no-parse-special")
    assert plain[:2] == [2, 9259]
    assert 1 not in plain
    assert ids(capsys, model, "--text", "") == [2]


def test_a_file_is_read_as_it_is(
    capsys: pytest.CaptureFixture[str], smollm2_path: Path, tmp_path: Path
) -> None:
    file = tmp_path / "text"
    file.write_bytes("\ufeffa\r\n\u00e9".encode())
    given = ids(capsys, str(smollm2_path), "--text-file", str(file))
    assert given == ids(capsys, str(smollm2_path), "--text", "\ufeffa\r\n\u00e9")
    file.write_bytes(b"ab\xff")
    assert main(["tokenize", str(smollm2_path), "--text-file", str(file)]) == 1
    assert "byte 2 is not UTF-8" in capsys.readouterr().err
    assert main(["tokenize", str(smollm2_path), "--text-file", str(tmp_path / "none")]) == 1
    assert main(["tokenize", str(smollm2_path), "--text", "a", "--text-file", str(file)]) == 2


def test_for_people_it_shows_pieces(capsys: pytest.CaptureFixture[str], smollm2_path: Path) -> None:
    assert main(["tokenize", str(smollm2_path), "--text", "Hi\U0001f999<|im_end|>"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["26843", "'Hi'"]
    assert lines[-2].split() == ["2", "'<|im_end|>'"]
    assert lines[-1] == f"{len(lines) - 1} tokens"
