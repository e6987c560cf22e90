"""Names that would steer a terminal, or fill it, through every command that takes a model."""

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from app import cli
from app.terminal.text import LONGEST, Tamed, note, print_json, raw, shown, tamed_output, whole
from engine.gguf import open_gguf
from engine.gguf.values import ValueType as V
from tests.gguf_files import Blocks, Draft, drafted

pytestmark = pytest.mark.usefixtures("kept_engines")
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
EVIL = "\x1b]0;gotcha\x07\x1b[2J\r\x9b31m\x7f\bEVIL"
HOST = ("--device", "host")


@pytest.fixture
def draft(tiny_path: Path) -> Draft:
    """A model that runs, with names that nobody would want to see."""
    with open_gguf(tiny_path) as file:
        draft = drafted(file)
    draft.pairs["general.name"] = (V.STRING, EVIL)
    draft.pairs[f"x.{EVIL}"] = (V.STRING, f"{EVIL}\n{EVIL}")
    return draft


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "evil\x1b[31m\nfolder"
    folder.mkdir()
    monkeypatch.setenv("CUTAWAY_MODELS", str(folder))
    return folder


@pytest.fixture
def good(draft: Draft, folder: Path) -> Path:
    return draft.write(folder / "m\x1b]0;x\x07\r\n\x9b.gguf")


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text.txt"
    path.write_text("the other that the then " * 60)
    return str(path)


@pytest.fixture
def wrong_name(draft: Draft, folder: Path) -> Path:
    """A file with tensors that its architecture does not know."""
    for n in range(9):
        draft.tensors[f"blk.0.{n}{EVIL}{'x' * 60_000}"] = Blocks(0, (8,), bytes(32))
    return draft.write(folder / f"unbound{EVIL}.gguf")


@pytest.fixture
def long_name(draft: Draft, folder: Path) -> Path:
    """A file whose pre-tokenizer's name takes 70 KB."""
    draft.pairs["tokenizer.ggml.pre"] = (V.STRING, EVIL + "y" * 70_000)
    return draft.write(folder / "long.gguf")


@pytest.fixture
def raising(draft: Draft, folder: Path) -> Path:
    """A file whose chat template complains."""
    escaped = EVIL.encode("unicode_escape").decode()
    draft.pairs["tokenizer.chat_template"] = (V.STRING, f"{{{{ raise_exception('{escaped}') }}}}")
    return draft.write(folder / "raising.gguf")


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Status, stdout and stderr of a command, neither of which may steer a terminal."""
    status = cli.main(words)
    out, err = capsys.readouterr()
    for stream in (out, err):
        assert not STEERING.search(stream), STEERING.findall(stream)
    assert max(map(len, err.split("\n"))) <= LONGEST
    return status, out, err


def test_tables_and_json(
    own_home: Path, good: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    model = str(good)
    for words in (
        ("models",),
        ("inspect", model),
        ("inspect", model, "--tensor", "output_norm.weight"),
        ("tokenize", model, "--text", EVIL),
        ("plan", model, *HOST, "--ctx", "64", "--nodes"),
        ("run", model, "-p", EVIL, *HOST, "--temp", "0", "--max-tokens", "2", "--logprobs", "2"),
        ("perplexity", model, text, *HOST, "--ctx", "32"),
        ("bench", model, "-p", "4", "-n", "2", "-r", "1", *HOST),
    ):
        status, out, _ = said(capsys, *words)
        assert status == 0, words
        if words[0] != "run":  # what a model says is its own business
            assert max(map(len, out.split("\n"))) <= LONGEST
    (row,) = out_of(capsys, "models", "--json")
    assert row["paths"] == [model]
    assert len(said(capsys, "models")[1].splitlines()) == 1
    assert out_of(capsys, "inspect", model, "--json")["metadata"]["general.name"] == EVIL
    planned = out_of(capsys, "plan", model, *HOST, "--ctx", "64", "--json")
    assert planned["name"] == EVIL
    told = out_of(capsys, "run", model, "-p", "the", *HOST, "--max-tokens", "2", "--json")
    assert (told["path"], told["model"]) == (model, EVIL)
    assert out_of(capsys, "perplexity", model, text, *HOST, "--ctx", "32", "--json")["chunks"] > 0
    out_of(capsys, "bench", model, "-p", "4", "-n", "0", "-r", "1", *HOST, "--json")
    out_of(capsys, "tokenize", model, "--text", EVIL, "--json")


def out_of(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    status, out, _ = said(capsys, *words)
    assert status == 0, (words, out)
    return json.loads(out)


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("file", ["wrong_name", "long_name", "raising"])
def test_errors(
    file: str,
    as_json: bool,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    text: str,
) -> None:
    model = str(request.getfixturevalue(file))
    commands = [("run", model, "-p", "the", *HOST, "--max-tokens", "1")]
    if file == "wrong_name" and not as_json:
        commands.append(("plan", model, *HOST))
    if file == "long_name" and not as_json:
        commands += [("tokenize", model, "--text", "x"), ("perplexity", model, text, *HOST)]
    for words in commands:
        status, out, err = said(capsys, *words, *(["--json"] if as_json else []))
        assert status == 1
        message = json.loads(out)["error"]["message"] if as_json else err
        assert "EVIL" in message
        assert not STEERING.search(message)
        assert len(message) <= LONGEST + 1


def test_a_missing_tensor_and_file(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ("inspect", str(good), "--tensor", EVIL + "z" * 5000),
        ("inspect", f"{EVIL}.gguf"),
        ("run", EVIL, "-p", "x"),
        (EVIL,),
        ("run", "--device", EVIL, str(good), "-p", "x"),
        ("get", EVIL),
        ("selftest", "--device", EVIL),
        ("tune", "--to", EVIL),
        ("run", f"--{EVIL}"),
    ):
        status, _, err = said(capsys, *words)
        assert status in (1, 2)
        assert err.startswith("cutaway: error: ")
        assert err.count("\n") == 1


def test_what_passes_and_what_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", Tamed(out))
    monkeypatch.setattr(sys, "stderr", Tamed(err))
    print("a\tb\n", EVIL, "é🦀\u200d", sep="", end="")
    assert out.getvalue() == f"a\tb\n{shown(EVIL)}é🦀\u200d"
    assert "\\x1b[2J" in out.getvalue()
    out.truncate(out.seek(0))
    raw(EVIL, end="")
    assert out.getvalue() == EVIL
    out.truncate(out.seek(0))
    whole(EVIL + "x" * 9000, end="")
    assert not STEERING.search(out.getvalue())
    assert len(out.getvalue()) > 9000
    out.truncate(out.seek(0))
    print_json({"a": [float("nan"), float("-inf"), (1.5, EVIL)], "\udcff": "é"})
    assert json.loads(out.getvalue()) == {"a": [None, None, [1.5, EVIL]], "\udcff": "é"}
    assert not STEERING.search(out.getvalue())
    assert out.getvalue().isascii()
    note(f"two\nlines {EVIL}")
    assert err.getvalue() == f"cutaway: two lines {shown(EVIL)}\n".replace("\\r", " ", 1)


def test_long_lines_keep_their_end() -> None:
    line = "x" * 70_000 + "; next: do this"
    assert len(shown(line)) == LONGEST
    assert shown(line).endswith("; next: do this")
    assert "[… 68,0" in shown(line)
    assert shown(f"a\n{line}\nb").split("\n")[::2] == ["a", "b"]
    assert shown("x" * LONGEST) == "x" * LONGEST


def test_streams_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = sys.stdout
    with tamed_output():
        inner = sys.stdout
        assert isinstance(inner, Tamed)
        with tamed_output():
            assert sys.stdout is inner
        monkeypatch.setattr(sys, "stderr", None)
    assert sys.stdout is before


@pytest.mark.timeout(60)
def test_texts_without_end(
    tiny_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("app.terminal.text.MOST_TEXT", 1 << 20)
    status, _, err = said(capsys, "tokenize", str(tiny_path), "--text-file", "/dev/zero")
    assert (status, "at most 1 MiB" in err) == (1, True)
    with open("/dev/zero", encoding="utf-8") as endless:
        monkeypatch.setattr(sys, "stdin", endless)
        status, _, err = said(capsys, "run", str(tiny_path), *HOST)
    assert (status, "at most 1 MiB" in err) == (1, True)


def test_decimals_without_end(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for decimals in ("9" * 30, "1000000000"):
        words = ("inspect", str(good), "--tensor", "output_norm.weight", "--precision", decimals)
        status, _, err = said(capsys, *words)
        assert (status, "--precision" in err) == (1, True)
