"""Rendering templates in a process of their own, so that a hostile one harms nothing here."""

import atexit
import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from engine.errors import TemplateError, TemplateTooSlow
from engine.system import limit_growth

START_LIMIT = 15.0  # seconds until the process must be ready
RENDER_LIMIT = 1.2  # seconds for one template
MEMORY = 256 << 20  # bytes for it, beyond those of the idle process

_SCRIPT = Path(__file__).with_name("sandbox.py")


class Renderer:
    """The process, started when first needed and again after one was stopped; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self._ready = False

    def start(self) -> None:
        """Start the process, if there is none, and do not wait until it is ready."""
        with self._lock:
            self._running()

    def render(self, template: str, variables: Mapping[str, object]) -> str:
        """The rendered text.

        TemplateError when the template is wrong, refuses, or takes too much time, memory or text.
        """
        try:
            request = json.dumps({"template": template, "variables": variables}).encode() + b"\n"
        except (TypeError, ValueError) as error:
            raise TemplateError(f"chat template: variables cannot be passed: {error}") from None
        with self._lock:
            process = self._started()
            line = exchange(process, request, RENDER_LIMIT)
            if not line:
                self._stop()
                if line is None:
                    raise TemplateTooSlow(f"chat template: not rendered within {RENDER_LIMIT:g} s")
                ended = f"its process ended with status {process.returncode}"
                raise TemplateError(f"chat template: {ended}")
        reply: dict[str, str] = json.loads(line.decode("utf-8", "surrogatepass"))
        if "error" in reply:
            raise TemplateError(f"chat template: {' '.join(reply['error'].split())[:500]}")
        return reply["text"]

    def close(self) -> None:
        """Ends the process, if there is one."""
        with self._lock:
            self._stop()

    def _started(self) -> "subprocess.Popen[bytes]":
        process = self._running()
        if self._ready:
            return process
        if exchange(process, b"", START_LIMIT) != b"ready\n":
            self._stop()
            raise TemplateError("chat template: the process that renders it does not start")
        try:
            limit_growth(process.pid, MEMORY)
        except OSError as error:
            self._stop()
            raise TemplateError(f"chat template: its memory cannot be limited: {error}") from None
        self._ready = True
        return process

    def _running(self) -> "subprocess.Popen[bytes]":
        if self.process is not None and self.process.poll() is None:
            return self.process
        self._stop()
        # -P: the script's own folder must not be searched for modules.
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(_SCRIPT), str(MEMORY >> 20)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        return self.process

    def _stop(self) -> None:
        process, self.process, self._ready = self.process, None, False
        if process is None:
            return
        process.kill()
        try:
            process.communicate()  # closes the pipes and waits
        except OSError:
            process.wait()


def exchange(process: "subprocess.Popen[bytes]", request: bytes, limit: float) -> bytes | None:
    """The line that answers `request`, empty when the process ended; None: killed after `limit`."""
    assert process.stdin is not None
    assert process.stdout is not None
    late = threading.Event()

    def stop() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(limit, stop)
    timer.daemon = True
    timer.start()
    try:
        process.stdin.write(request)
        process.stdin.flush()
        line = process.stdout.readline()
    except OSError:
        line = b""
    finally:
        timer.cancel()
    if line.endswith(b"\n"):
        return line
    return None if late.is_set() else b""


RENDERER = Renderer()
atexit.register(RENDERER.close)
