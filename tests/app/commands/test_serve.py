"""`cutaway serve` as a person starts it: the address, the end, and what is refused."""

import os
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.app.serve.running import HTTP
from tests.program import ROOT, RUN, assert_one_line_error, engine_of, run

pytestmark = pytest.mark.usefixtures("nothing_left")
HOST = ("--device", "host", "--ctx", "256", "--port", "0")
LOOK = 0.02  # seconds between two requests of the same


@pytest.fixture(autouse=True)
def loopback(refused: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine may be connected to."""
    monkeypatch.setenv("CUTAWAY_TEST_HOSTS", "127.0.0.1 localhost ::1")


@contextmanager
def serve(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The running program and its address."""
    program = subprocess.Popen(
        [*RUN, "serve", *words, *HOST],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stdout is not None
    try:
        yield program, program.stdout.readline().strip()
    finally:
        program.kill()
        program.communicate()


def ask(url: str, **more: object) -> httpx2.Response:
    body = {"messages": [{"role": "user", "content": "the capital"}], "max_tokens": 3} | more
    return HTTP.post(f"{url}/v1/chat/completions", json=body)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_answers_and_ends_cleanly(tiny_path: Path, number: int) -> None:
    with serve(str(tiny_path)) as (program, url):
        assert url.startswith("http://127.0.0.1:")
        assert ask(url).status_code == 200
        assert ask(url, model=tiny_path.stem).status_code == 200
        assert ask(url, model="other").status_code == 404
        worker = engine_of(program.pid)
        program.send_signal(number)
        out, err = program.communicate(timeout=60)
        assert (program.returncode, out) == (0, "")
        assert "Traceback" not in err
        assert "/v1/chat/completions: " in err
        assert " + 3 tokens, " in err
        assert "capital" not in err
        assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE


def test_open_streams_are_told_of_the_end(tiny_path: Path) -> None:
    endless = {"stream": True, "ignore_eos": True, "max_tokens": None, "n": 4}
    with serve(str(tiny_path)) as (program, url), httpx2.Client(timeout=60, verify=False) as client:
        body = {"messages": [{"role": "user", "content": "hi"}]} | endless
        body["logprobs"] = True
        body["top_logprobs"] = 20
        # Longer than a server waits: its contexts are full only after minutes of this.
        with client.stream("POST", f"{url}/v1/chat/completions", json=body) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("data: ")
            program.send_signal(signal.SIGINT)
            program.send_signal(signal.SIGTERM)  # twice: somebody is in a hurry
            text = "\n".join(lines)
        assert program.wait(60) == 0
        assert "[DONE]" in text or "shutting down" in text


def test_a_worker_that_is_killed_comes_back_once(tiny_path: Path) -> None:
    with serve(str(tiny_path)) as (program, url):
        engine_of(program.pid).kill()
        while HTTP.get(f"{url}/health").status_code != 503:
            time.sleep(LOOK)
        while (told := HTTP.get(f"{url}/health")).status_code != 200:
            assert told.headers["retry-after"] == "2"
            time.sleep(LOOK)
        assert ask(url).status_code == 200
        engine_of(program.pid).kill()
        while "twice within a minute" not in (told := HTTP.get(f"{url}/health")).text:
            assert told.status_code in (200, 503)
            time.sleep(LOOK)
        refused = ask(url)
        assert refused.status_code == 503
        assert "down" in refused.json()["error"]["message"]
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 0


def test_an_address_of_another_machine_is_named(
    tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTAWAY_TEST_HOSTS", "192.0.2.1")  # it is bound to, not called
    key = ("--api-key", "k" * 32)
    foreign = run("serve", str(tiny_path), "--host", "192.0.2.1", "--port", "0", *key)
    assert_one_line_error(foreign, "--host", "192.0.2.1", "an address of this machine")


def test_what_cannot_be_served_is_said(tiny_path: Path, tmp_path: Path) -> None:
    model = str(tiny_path)
    open_door = run("serve", model, "--host", "0.0.0.0")
    assert_one_line_error(open_door, "--host", "0.0.0.0", "key")
    shared = tmp_path / "key"
    shared.write_text("secret")
    shared.chmod(0o644)
    assert_one_line_error(run("serve", model, "--api-key-file", str(shared)), "chmod 600")
    shared.chmod(stat.S_IRUSR)
    assert_one_line_error(run("serve", "no-such-model", "--port", "0"), "no-such-model")
    with serve(model, "--api-key-file", str(shared)) as (_, url):
        port = url.rpartition(":")[2]
        taken = run("serve", model, "--device", "host", "--port", port)
        assert_one_line_error(taken, "--port", port, "free")
        assert ask(url).status_code == 401
        key = {"authorization": "Bearer secret"}
        assert HTTP.get(f"{url}/v1/models", headers=key).status_code == 200


def test_broken_files_are_refused_before_anybody_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + os.urandom(100))
    assert_one_line_error(run("serve", str(broken), "--port", "0"), str(broken))
