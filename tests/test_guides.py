"""The guides keep their word: every command in them can be run, every file they name is there."""

import re
import shlex
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from app import cli
from tests.line.smoke import SMOKE
from tests.mutants import MUTANTS
from tests.program import ROOT

GUIDES = [
    guide
    for name in (
        *(".github/CONTRIBUTING.md", "app/README.md", "engine/README.md"),
        *("kernels_cl/README.md", "README.md"),
    )
    if (guide := ROOT / name).exists()
] + sorted((ROOT / "resources" / "docs").glob("*.md"))
TOP = ("app", "engine", "kernels_cl", "resources", "tests")
STARTS = ("pytest ", "python -m ", "cutaway ", "ruff ", "mypy")
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
# Words in capitals stand for a name: NAME.py, AREA, FAMILY.
INVENTED = ("leaky_relu", "letters")  # what a recipe adds
MADE_UP = re.compile("|".join(("[<>]", *INVENTED)))
STANDS_FOR = re.compile(r"(?<![A-Za-z])(?!README|CONTRIBUTING)[A-Z]{2,}")


def code(guide: Path) -> list[str]:
    """What a guide has in code: lines of shell blocks, and pieces within the text."""
    text = guide.read_text("utf-8")
    lines = [line for block in BLOCK.findall(text) for line in block.splitlines()]
    plain = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return lines + INLINE.findall(plain)


def commands() -> list[tuple[str, str]]:
    """Every command of every guide: (guide, command), cut at && and without what is set for it."""
    found = []
    for guide in GUIDES:
        for line in code(guide):
            for part in re.split(r"&&|\|", line):
                plain = re.sub(r"^(\w+=\S+ +)+", "", part.strip()).replace(".venv/bin/", "")
                if plain.startswith(STARTS):
                    found.append((str(guide.relative_to(ROOT)), plain))
    return sorted(set(found))


def of(program: str) -> list[tuple[str, str]]:
    return [(guide, line) for guide, line in commands() if line.split()[0] == program]


def test_there_are_guides_and_commands_in_them() -> None:
    assert ROOT / ".github" / "CONTRIBUTING.md" in GUIDES
    assert len(of("pytest")) > 5
    assert len(of("python")) > 3


@pytest.mark.parametrize(("guide", "line"), of("pytest"))
def test_pytest_finds_what_it_is_asked_for(guide: str, line: str) -> None:
    words = shlex.split(line)[1:]
    plugins = [value for option, value in zip(words, words[1:], strict=False) if option == "-p"]
    assert all(find_spec(plugin) for plugin in plugins), plugins
    paths = [word for word in words if word.startswith("tests") and word not in plugins]
    names = [path.split("::")[0] for path in paths]
    for name in names:
        assert STANDS_FOR.search(name) or (ROOT / name).exists(), name
    with open(ROOT / "pyproject.toml", "rb") as file:
        options = tomllib.load(file)["tool"]["pytest"]["ini_options"]
    known = {marker.split(":")[0] for marker in options["markers"]}
    for option, value in zip(words, words[1:], strict=False):
        if option == "-m":
            assert set(re.findall(r"\w+", value)) - {"not", "and", "or"} <= known, value
    options_only = [word for word in words if word.startswith("-")]
    assert {re.sub(r"=.*", "", o) for o in options_only} <= {
        "-m",
        "-n",
        "-k",
        "-p",
        "-q",
        "-x",
        "--timeout",
    }


@pytest.mark.parametrize(("guide", "line"), of("python"))
def test_python_runs_a_module_that_is_there(guide: str, line: str) -> None:
    module = shlex.split(line)[2]
    found = find_spec(module)
    assert found is not None, module
    if found.submodule_search_locations:
        assert find_spec(f"{module}.__main__") is not None, module
    else:
        assert '__name__ == "__main__"' in Path(str(found.origin)).read_text("utf-8"), module


@pytest.mark.parametrize(("guide", "line"), of("cutaway"))
def test_cutaway_has_such_a_command(guide: str, line: str) -> None:
    known = {module.NAME for module in cli.commands()}
    name = shlex.split(line)[1]
    assert STANDS_FOR.fullmatch(name) or name.startswith(("-", "[")) or name in known, name


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: str(guide.relative_to(ROOT)))
def test_files_that_a_guide_names_are_there(guide: Path) -> None:
    missing = []
    for piece in code(guide):
        for word in re.findall(r"[\w./*<>-]+", piece):
            inside = word.startswith(tuple(f"{top}/" for top in TOP))
            if inside and not STANDS_FOR.search(word) and not re.search(MADE_UP, word):
                missing += [] if list(ROOT.glob(word.split("::")[0].rstrip("/."))) else [word]
    assert missing == []


def test_links_lead_somewhere() -> None:
    for guide in GUIDES:
        for target in re.findall(r"\]\(([^)#\s]+)", guide.read_text("utf-8")):
            assert "://" in target or (guide.parent / target).exists(), f"{guide}: {target}"


def test_the_smoke_tier_names_what_is_there() -> None:
    """Paths and tests by name; a renamed one would fall out of the tier unseen."""
    for entry in SMOKE:
        path, _, name = entry.partition("::")
        assert (ROOT / path).exists(), entry
        assert not name or f"def {name}(" in (ROOT / path).read_text("utf-8"), entry


def test_the_smoke_tier_is_chosen_and_does_without_models() -> None:
    words = [sys.executable, "-m", "pytest", "-m", "smoke", "--collect-only", "-q"]
    paths = ["tests/engine/gguf/test_reader.py", "tests/kernels/test_norm.py", "tests/test_tree.py"]
    ended = subprocess.run(
        [*words, *paths], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stdout[-2000:]
    chosen = ended.stdout
    assert "test_agrees_on_a_written_file" in chosen
    assert "test_modules_are_short" in chosen
    assert "test_agrees_on_smollm2" not in chosen


def test_mutants_still_fit_the_code() -> None:
    """They are run by hand; that they can be is seen here. Else give the fault its new lines."""
    for mutant in MUTANTS:
        assert (ROOT / mutant.file).read_text("utf-8").count(mutant.old) == 1, mutant.old
        assert mutant.old != mutant.new
        for name in mutant.tests.split():
            assert (ROOT / name.split("::")[0]).exists(), name
