"""The refusal itself: a test that reaches for the network fails, whatever it catches."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.program import ROOT

CONNECT = "import socket\nsocket.create_connection(('127.0.0.1', 9), timeout=1)"
LOOK_UP = "import socket\nsocket.getaddrinfo('pypi.org', 443)"
DATAGRAM = "import socket\nsocket.socket(type=socket.SOCK_DGRAM).sendto(b'', ('127.0.0.1', 9))"
PAIR = "import socket\na, b = socket.socketpair()\na.sendall(b'x')\nassert b.recv(1) == b'x'"
IN_CHILD = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {CONNECT!r}])"


@pytest.mark.parametrize(
    ("does", "fails"),
    [(CONNECT, True), (LOOK_UP, True), (DATAGRAM, True), (IN_CHILD, True), (PAIR, False)],
    ids=["connect", "look up", "datagram", "in a child", "pair"],
)
def test_reaching_for_the_network(does: str, fails: bool, tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(
        f"def test_it():\n    try:\n        exec({does!r}, {{}})\n    except OSError: pass"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.app.helpers.no_network",
        str(test),
    ]
    ended = subprocess.run(
        [*command, "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "-c", os.devnull],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode == 1) == fails, ended.stdout
    assert ("connections were tried" in ended.stdout) == fails
