"""Sockets refused: whoever reaches for any host but the test's own server fails the test.

A plug-in of pytest (`-p tests.app.helpers.no_network`); children of the test refuse as well.
"""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

# What children run before anything else, so it imports nothing of ours. An audit hook hears of
# connections, whichever library makes them; addresses of AF_UNIX are no tuples.
HOOK = """\
import json, os, sys
HEARD = frozenset(("socket.connect", "socket.sendto", "socket.getaddrinfo"))
def refuse(event, args):
    if event not in HEARD:  # first and fast: hundreds of events are heard for each that matters
        return
    if event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple):
        host, port = args[1][:2]
    elif event == "socket.getaddrinfo":
        host, port = args[:2]
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    if host not in os.environ.get("CUTAWAY_TEST_HOSTS", "").split():
        with open(os.environ["CUTAWAY_TEST_REFUSED"], "a") as log:
            log.write(json.dumps([sys.argv[:4], event, str(host), str(port)]) + "\\n")
        raise ConnectionRefusedError(f"tests open no connection to {host}:{port}")
"""


@dataclass
class Refusals:
    """Whether it refuses, and what by."""

    on: bool = False
    names: dict[str, Any] = field(default_factory=dict)


_refusals = Refusals()
exec(HOOK, _refusals.names)


def _refuse(
    event: str, args: tuple[Any, ...], heard: frozenset[str] = _refusals.names["HEARD"]
) -> None:
    if event in heard and _refusals.on:
        _refusals.names["refuse"](event, args)


sys.addaudithook(_refuse)  # stays for good, so it is switched


@pytest.fixture(scope="session")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose programs refuse; one for all tests, so that an engine may serve several."""
    folder = tmp_path_factory.mktemp("no-network")
    (folder / "sitecustomize.py").write_text(f"{HOOK}sys.addaudithook(refuse)\n")
    (folder / "tried").touch()
    return folder


@pytest.fixture(autouse=True)
def refused(refusing: Path) -> Iterator[Path]:
    """Refuses in this process and its children, but for hosts named in CUTAWAY_TEST_HOSTS, which
    a test with a server of its own sets. The path is of the file of what was tried, a line each.
    """
    tried = refusing / "tried"
    with pytest.MonkeyPatch.context() as patch:
        path = os.pathsep.join(p for p in (str(refusing), os.environ.get("PYTHONPATH", "")) if p)
        patch.setenv("PYTHONPATH", path)
        patch.setenv("CUTAWAY_TEST_REFUSED", str(tried))
        patch.delenv("CUTAWAY_TEST_HOSTS", raising=False)
        _refusals.on = True
        yield tried
        _refusals.on = False
    lines = [json.loads(line) for line in tried.read_text().splitlines()]
    tried.write_text("")
    assert not lines, f"connections were tried: {lines}"
