"""The command line's frame: what every command has in common, and get and models."""

import argparse
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import NoReturn

import pytest

from app import cli
from app.commands import get, models
from app.version import version
from engine.errors import CutawayError
from engine.gguf.values import ValueType
from tests.app.fetch.test_hub import Q4, cdn, publish
from tests.app.helpers.server import Page, Server
from tests.app.test_library import put
from tests.gguf_files import Blocks, Draft
from tests.goldens.tiny import write_tiny
from tests.in_process import run_here
from tests.program import PATIENCE, ROOT, RUN, Ended, run


def assert_one_line_error(ended: Ended, status: int, *parts: str) -> None:
    assert ended.returncode == status, ended
    assert ended.stdout == ""
    assert ended.stderr.startswith("cutaway: error: ")
    assert ended.stderr.count("\n") == 1
    for part in parts:
        assert part in ended.stderr


def test_version_without_anything_heavy(own_home: Path) -> None:
    code = (
        "import sys; from app.cli import main; status = main(['--version'])\n"
        "heavy = {'numpy', 'httpx2', 'huggingface_hub', 'pyopencl', 'jinja2', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)), status)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines() == [f"cutaway {version()}", "[] 0"]
    if version() != "(not installed)":
        assert version() == metadata.version("cutaway")


def test_help_lists_every_command_and_setting(own_home: Path) -> None:
    for words in ("--help", "-h"):
        ended = run_here(words)
        assert (ended.returncode, ended.stderr) == (0, "")
        names = [line.split()[0] for line in ended.stdout.splitlines() if line.startswith("  ")]
        assert {"get", "models", "CUTAWAY_MODELS", "CUTAWAY_CACHE", "CUTAWAY_LOG"} <= set(names)
    assert "--accept-terms" in run("get", "--help").stdout


@pytest.mark.parametrize("module", cli.commands(), ids=lambda module: module.NAME)
def test_every_command_keeps_the_convention(module: object) -> None:
    assert module.__name__.rpartition(".")[2].replace("_", "-") == module.NAME  # type: ignore[attr-defined]
    assert module.HELP  # type: ignore[attr-defined]
    parser = cli.Parser(prog=module.NAME)  # type: ignore[attr-defined]
    module.configure(parser)  # type: ignore[attr-defined]
    assert parser.format_help()


def test_usage_errors(own_home: Path) -> None:
    assert_one_line_error(run("modles"), 2, "no command 'modles'", "did you mean 'models'?")
    assert_one_line_error(run_here("options"), 2, "no command 'options'")
    assert_one_line_error(run_here("get"), 2, "NAME", "cutaway get --help")
    assert_one_line_error(run_here("--nonsense"), 2, "--nonsense", "cutaway --help")
    assert_one_line_error(run_here("models", "--nonsense"), 2, "--nonsense")


def test_errors_of_ours(own_home: Path) -> None:
    assert_one_line_error(run_here("get", "nothing"), 1, "'nothing'", "smollm2-135m")
    assert_one_line_error(
        run_here("get", "gemma3-270m"), 1, "ai.google.dev/gemma", "--accept-terms"
    )


def test_json_errors(own_home: Path) -> None:
    ended = run_here("get", "nothing", "--json")
    assert (ended.returncode, ended.stderr) == (1, "")
    error = json.loads(ended.stdout)["error"]
    assert error["kind"] == "ModelNotFound"
    assert "'nothing'" in error["message"]
    assert json.loads(run_here("get", "--json").stdout)["error"]["kind"] == "UsageError"


def test_wrong_setting(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTAWAY_MODELS", str(ROOT / "pyproject.toml"))
    assert_one_line_error(run_here("models"), 1, "CUTAWAY_MODELS", "expected a folder")


@pytest.mark.parametrize("as_json", [False, True])
def test_unexpected_errors_leave_their_details_in_a_file(
    own_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    as_json: bool,
) -> None:
    def fails(_: object) -> int:
        raise ZeroDivisionError("one\nby none")

    monkeypatch.setattr(models, "run", fails)
    monkeypatch.setenv("CUTAWAY_LOG", str(own_home / "logs"))
    assert cli.main(["models", "--json"] if as_json else ["models"]) == 1
    out, err = capsys.readouterr()
    line = json.loads(out)["error"]["message"] if as_json else err
    log = own_home / "logs" / "errors.log"
    assert "unexpected ZeroDivisionError: one by none" in line
    assert str(log) in line
    assert "Traceback" not in out + err
    assert "in fails" in log.read_text()


def test_unexpected_error_where_no_log_can_be_written(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: object) -> int:
        raise ZeroDivisionError("x")

    monkeypatch.setattr(models, "run", fails)
    monkeypatch.setenv("CUTAWAY_LOG", "/proc/logs")
    assert cli.main(["models"]) == 1
    assert "details could not be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (KeyboardInterrupt(), 130, "\n"),
        (CutawayError("two\nlines"), 1, "cutaway: error: two lines\n"),
        (
            FileNotFoundError(2, "No such file or directory", "a.txt"),
            1,
            "cutaway: error: a.txt: No such file or directory\n",
        ),
    ],
)
def test_how_a_command_can_end(
    own_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    status: int,
    message: str,
) -> None:
    def fails(_: object) -> int:
        raise error

    monkeypatch.setattr(models, "run", fails)
    assert cli.main(["models"]) == status
    assert capsys.readouterr() == ("", message)


@pytest.mark.only_linux("pipes differ elsewhere")
@pytest.mark.parametrize("words", [("--version",), ("models", "--json"), ("get", "x", "--json")])
def test_a_closed_pipe_is_no_error(own_home: Path, words: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [*RUN, *words],
        cwd=ROOT,
        stdout=write,
        stderr=subprocess.PIPE,
        timeout=PATIENCE,
        check=False,
    )
    os.close(write)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_models(own_home: Path) -> None:
    empty = run_here("models")
    assert empty.returncode == 0
    assert "cutaway get" in empty.stdout
    folder = own_home / "data" / "cutaway" / "models"
    file = put(folder / "a.gguf")
    (folder / "broken.gguf").write_bytes(b"GGUF")
    a, broken = json.loads(run_here("models", "--json").stdout)
    assert a == {
        "name": "a",
        "paths": [str(file)],
        "size": file.stat().st_size,
        "origin": "own",
        "projector": False,
        "adapter": False,
        "adapts": None,
        "projector_path": None,
        "projector_problem": None,
        "architecture": "llama",
        "quantization": "F16",
        "ranks": False,
        "problem": None,
    }
    assert "broken.gguf" in broken["problem"]
    table = run_here("models").stdout.splitlines()
    assert [line.split()[0] for line in table] == ["a", "broken"]
    assert "llama F16" in table[0]
    assert "problem: " in table[1]


@pytest.mark.only_linux("file names are text elsewhere")
def test_a_name_that_is_not_unicode_can_be_listed(own_home: Path) -> None:
    folder = own_home / "data" / "cutaway" / "models"
    folder.mkdir(parents=True)
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.gguf")).write_bytes(b"GGUF")
    ended = run("models")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(json.loads(run("models", "--json").stdout)) == 1


def test_get(server: Server, own_home: Path) -> None:
    publish(server, "org/repo", {"m-Q4_0.gguf": Q4})
    ended = run("get", "org/repo")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert Path(ended.stdout.strip()).read_bytes() == Q4
    answer = json.loads(run_here("get", "org/repo", "--json").stdout)
    about = {"name": "org/repo", "path": ended.stdout.strip(), "size": len(Q4)}
    assert answer == about | {"projector": None, "projector_size": None}


def test_get_brings_the_projector_along(server: Server, own_home: Path) -> None:
    pairs = {"general.architecture": (ValueType.STRING, "clip")}
    tower = b"".join(Draft(pairs, {"x.weight": Blocks(0, (32,), bytes(128))}).encoded())
    publish(server, "org/see", {"m-Q4_0.gguf": Q4, "mmproj-m-F16.gguf": tower})
    assert run_here("get", "org/see", "--text-only").stderr == ""
    ended = run_here("get", "org/see")
    assert ended.stderr == "cutaway: it reads pictures with mmproj-m-F16.gguf, 0 MB\n"
    answer = json.loads(run_here("get", "org/see", "--json").stdout)
    path = Path(ended.stdout.strip()).with_name("mmproj-m-F16.gguf")
    assert (answer["projector"], answer["projector_size"]) == (str(path), len(tower))


@pytest.mark.only_linux("sends a signal")
def test_ctrl_c_keeps_what_came(server: Server, own_home: Path) -> None:
    publish(server, "org/repo", {"m-Q4_0.gguf": Q4})
    page: Page = server.pages[cdn(Q4)]
    page.seconds_a_chunk = 0.05
    child = subprocess.Popen(
        [*RUN, "get", "org/repo"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while not any(part.stat().st_size for part in own_home.rglob("*.part")):
        assert child.poll() is None
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=PATIENCE)
    assert (child.returncode, out) == (130, b"")
    assert err == b"cutaway: org/repo: stopped; `cutaway get org/repo` resumes it\n"
    page.seconds_a_chunk = 0
    assert run("get", "org/repo").returncode == 0
    assert str(server.ranges_of(cdn(Q4))[-1]).startswith("bytes=")


@pytest.mark.only_linux("needs a pseudo-terminal")
@pytest.mark.parametrize(
    ("answer", "message"), [(b"n\n", b"--accept-terms"), (b"y\n", b"is not available")]
)
def test_terms_are_asked_on_a_terminal(server: Server, answer: bytes, message: bytes) -> None:
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [*RUN, "get", "gemma3-270m"], cwd=ROOT, stdin=theirs, stderr=theirs, stdout=theirs
    )
    os.close(theirs)
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(ours, 4096)
    assert b"https://ai.google.dev/gemma/terms" in shown
    os.write(ours, answer)
    assert child.wait(PATIENCE) == 1
    rest = os.read(ours, 4096)
    while message not in rest:
        rest += os.read(ours, 4096)
    os.close(ours)


def test_terms_are_not_asked_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert get.agreed("smollm2-135m") is False


@pytest.mark.usefixtures("kept_engines")
@pytest.mark.parametrize(
    ("words", "setting", "parts"),
    [
        (("--budget", "host=" + "9" * 23), "", ("--budget", "DEVICE=MiB")),
        (("--place", "9" * 5000 + "=host"), "", ("--place", "4 digits")),
        ((), "/dev/full", ("CUTAWAY_CACHE", "/dev/full is a file")),
    ],
)
def test_options_out_of_all_range_are_a_sentence(
    words: tuple[str, ...],
    setting: str,
    parts: tuple[str, ...],
    tiny_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUTAWAY_CACHE", setting)
    assert_one_line_error(run_here("plan", str(tiny_path), "--device", "host", *words), 1, *parts)


@pytest.mark.parametrize(
    ("shell", "status", "says"),
    [
        (">/dev/full", 1, "the standard output: No space left on device"),
        (">&-", 1, "the standard output is closed"),
        ("2>&-", 0, ""),
        ("--json >/dev/full", 1, "the standard output: No space left on device"),
    ],
)
def test_a_standard_output_that_takes_nothing(
    shell: str, status: int, says: str, own_home: Path, tiny_path: Path
) -> None:
    command = f'"$0" -m app tokenize "{tiny_path}" --text hello {shell}'
    ended = subprocess.run(
        ["sh", "-c", command, sys.executable], cwd=ROOT, capture_output=True, timeout=PATIENCE
    )
    errors = ended.stderr.decode()
    assert (ended.returncode, errors.count("\n")) == (status, 1 if says else 0), errors
    assert says in errors
    assert "Traceback" not in errors


def test_a_window_needs_no_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """A desktop may start it without one."""
    monkeypatch.setattr(sys, "stdout", None)
    assert cli.main(["window", "--help"]) == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "words",
    [
        (b"run", b"FILE", b"-p", b"hi"),
        (b"plan", b"FILE"),
        (b"embed", b"FILE", b"--text", b"a"),
        (b"plan", b"TINY", b"--device", b"int\xffel"),
        (b"plan", b"TINY", b"--place", b"0=int\xffel:0"),
    ],
)
def test_a_name_that_is_not_utf8(
    words: tuple[bytes, ...], own_home: Path, tiny_path: Path, tmp_path: Path
) -> None:
    odd = os.fsencode(tmp_path) + b"/bad\xff.gguf"
    os.link(tiny_path, odd)
    given = {b"FILE": odd, b"TINY": os.fsencode(tiny_path)}
    command = [os.fsencode(sys.executable), b"-m", b"app", *(given.get(w, w) for w in words)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=PATIENCE)
    errors = ended.stderr.decode()
    assert ended.returncode in (1, 2), errors
    assert errors.count("\n") == 1
    assert "xff" in errors
    assert "is not UTF-8" in errors


def without_memory(args: argparse.Namespace) -> bytearray:
    return bytearray(1 << 62)


def without_room_for_a_library(args: argparse.Namespace) -> NoReturn:
    raise ImportError("PLEASE READ THIS\nlibopenblas.so: failed to map segment from shared object")


@pytest.mark.parametrize("run", [without_memory, without_room_for_a_library])
def test_too_little_memory_is_a_sentence(
    run: Callable[[argparse.Namespace], object],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(models, "run", run)
    assert cli.main(["models"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("cutaway: error: not enough memory; close other programs")
    assert error.count("\n") == 1


def test_a_file_that_is_cut_while_it_is_read_is_named(own_home: Path, tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "cut.gguf", "llama")
    code = """
import os
from engine.gguf import reader
whole = reader.GGUFFile.data
def cut(file, name):
    os.truncate(file.paths[0], 4096)
    return whole(file, name)
reader.GGUFFile.data = cut
from app.cli import main
raise SystemExit(main())
"""
    words = ["inspect", str(path), "--tensor", "output_norm.weight"]
    ended = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1, ended
    assert ended.stderr.startswith(f"cutaway: error: {path} was cut or became unreadable")


def test_too_many_open_files_name_the_limit(tmp_path: Path) -> None:
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8));"
    code += "from app.cli import main; sys.exit(main(['run', 'shapes', '-p', 'hi']))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("cutaway: error: too many open files; raise the limit")
