"""The examples of `curl` in resources/docs/server.md, as they are there, on a real server."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.app.serve.running import Served, events, served

PAGE = Path(__file__).parents[3] / "resources" / "docs" / "server.md"
(BLOCK,) = re.findall(r"^```bash\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.DOTALL)
COMMANDS = re.split(r"(?<!\\)\n", BLOCK.strip())
ADDRESS = "http://127.0.0.1:8085"


@pytest.fixture(scope="module")
def named(tiny_path: Path) -> Iterator[Served]:
    """A server whose model goes by the examples' name."""
    with served(tiny_path, aliases=("smollm2-135m",)) as running:
        yield running


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: re.search(r"8085(\S+)", c)[1])  # type: ignore[index]
def test_it_runs(named: Served, command: str) -> None:
    assert command.startswith("curl ")
    assert ADDRESS in command
    here = command.replace(ADDRESS, named.url).replace("curl", "curl -sS --fail", 1)
    ended = subprocess.run(["bash", "-c", here], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    if '"stream": true' in command:
        assert events(ended.stdout)[-1] is None
    else:
        assert msgspec.json.decode(ended.stdout)


def test_there_are_some() -> None:
    assert len(COMMANDS) == 7
