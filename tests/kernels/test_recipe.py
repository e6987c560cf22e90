"""kernels_cl/README.md followed by the letter: its operation, added to a copy of the tree, computes
on a device what two other definitions say; and its commands run.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.backends.opencl.backend import OpenCLBackend
from tests.recipes import followed

ROOT = Path(__file__).parents[2]
README = ROOT / "kernels_cl" / "README.md"
COMMAND = re.compile(r"^```sh\n(.*?)```", re.DOTALL | re.MULTILINE)
CHECKS = """
import sys
from engine.selftest import __main__ as selftest
from engine.selftest.table import chosen
from tests.engine.selftest import test_host
from tests.kernels import test_parameters
cases = chosen("^leaky_relu")
assert len(cases) > 10
test_host.test_every_operation_has_an_oracle()
test_host.check(cases)
test_parameters.test_launches_pass_what_kernels_take()
print("DEVICE")
selftest.main('{"device": "%s", "pattern": "^leaky_relu", "quick": true}' % sys.argv[1])
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of all that kernels need."""
    for folder in ("engine", "kernels_cl", "resources", "tests/kernels", "tests/engine/selftest"):
        ignored = shutil.ignore_patterns("conftest.py", "*.pyc.*")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    for package in ("tests", "tests/engine"):
        (tmp_path / package / "__init__.py").touch()
    return tmp_path


def run(tree: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    """Python in the copy, which wins over what is installed."""
    return subprocess.run([sys.executable, *command], cwd=tree, capture_output=True, text=True)


@pytest.mark.full_cases(r"\[pocl")
def test_a_new_operation(backend: OpenCLBackend, tree: Path) -> None:
    assert len(followed(README, tree)) == 13
    done = run(tree, "-c", CHECKS, backend.name)
    assert done.returncode == 0, done.stderr
    answers = done.stdout.partition("DEVICE\n")[2].splitlines()
    passed = [line for line in answers if '"passed"' in line]
    started = [line for line in answers if '"started"' in line]
    assert len(passed) == len(started) > 3, answers


def test_commands() -> None:
    commands = [
        line for block in COMMAND.findall(README.read_text("utf-8")) for line in block.splitlines()
    ]
    assert commands
    for command in commands:
        python, *words = command.split()
        assert python == "python"
        done = run(ROOT, *words)
        assert done.returncode == 0, done.stderr
        assert "__kernel" in done.stdout
