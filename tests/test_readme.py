"""README and its pages: the example runs, the commands exist, and CI calls the test command."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from app import cli
from tests import models_page

ROOT = Path(__file__).parent.parent
STEPS = ("pip", "ruff", "pytest")
README = (ROOT / "README.md").read_text("utf-8")


def fenced(language: str) -> list[str]:
    """The code blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.mark.model_file
def test_the_example_runs(smollm2_path: Path, tmp_path: Path) -> None:
    (code,) = fenced("python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    answers = []
    for _ in range(3):  # it is sampled: 99 of 100 seeds name the Pacific
        ended = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT), "CUTAWAY_MODELS": str(smollm2_path.parent)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        *said, numbers = ended.stdout.splitlines()
        answers.append(" ".join(said))
        if "Pacific" in answers[-1]:
            break
    assert "Pacific" in answers[-1], answers
    assert numbers.startswith("(49152, 576) 0.")


def test_two_commands_of_one_line_each() -> None:
    run, test = fenced("sh")
    assert run.count("\n") == test.count("\n") == 1
    for command in (run, test):
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    steps = ("ruff check", "ruff format --check", "pytest -n auto")
    assert test.endswith(" && ".join(f".venv/bin/{step}" for step in steps) + "\n")


@pytest.mark.parametrize("failing", [None, "ruff", "pytest"])
def test_ci_calls_exactly_the_second(tmp_path: Path, failing: str | None) -> None:
    """With every program in it replaced by one that notes how it was called."""
    _, command = fenced("sh")
    copied = tmp_path / "copy"
    (copied / ".ci").mkdir(parents=True)
    (copied / "README.md").write_text(README, "utf-8")
    script = copied / ".ci" / "run"
    script.write_bytes((ROOT / ".ci" / "run").read_bytes())
    script.chmod(0o755)
    noted = copied / "noted"
    for folder, names in (("bin", ("python3", "ld")), (".venv/bin", STEPS)):
        for name in names:
            program = copied / folder / name
            program.parent.mkdir(parents=True, exist_ok=True)
            status = 7 if name == failing else 0
            called = f"{folder}/{name}".removeprefix("bin/")
            program.write_text(f"#!/bin/sh\necho {called} $* >> {noted}\nexit {status}\n")
            program.chmod(0o755)
    path = f"{copied / 'bin'}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        [script], env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == (7 if failing else 0)
    assert ended.stdout == f"+ {command}"
    looked_for_venv, *calls = noted.read_text().splitlines()
    assert looked_for_venv.startswith("python3 -c")
    written = [part.strip() for part in command.replace("'", "").split("&&")]
    reached = 3 if failing == "ruff" else len(written)
    assert calls == written[:reached]


def test_every_command_is_listed() -> None:
    page = (ROOT / "resources" / "docs" / "commands.md").read_text("utf-8")
    listed = re.findall(r"^\| `cutaway ([a-z-]+)", page, re.MULTILINE)
    assert sorted(listed) == sorted(module.NAME for module in cli.commands())


def test_the_folder_map_is_true() -> None:
    rows = re.findall(r"^\| ((?:`[\w/.]+` ?)+)\|", README.split("## Where things are")[1], re.M)
    assert rows
    for row in rows:
        first, *rest = re.findall(r"`([^`]+)`", row)
        assert (ROOT / first).exists(), first
        for name in rest:
            assert (ROOT / first).parent.joinpath(name).exists(), name


def test_the_tables_of_what_opens_are_those_of_the_code() -> None:
    """They are written anew where they are not, to be looked at and committed."""
    for head, table in models_page.tables().items():
        assert models_page.PAGE.read_text("utf-8").count(head) == 1
        for row in table.splitlines():
            assert len(row) < 160, "a docstring begins with the models' names and a colon"
    assert not models_page.write(), "the tables of what opens were out of date; now they are right"
