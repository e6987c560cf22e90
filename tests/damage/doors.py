"""The doors through which kept files are opened, each in a process that has just started.

    python -m tests.damage.doors

It imports the program once, and forks for each line of stdin: {"door", "model", "fail"}. The answer
is a line with the exit status and what was printed. `fail` are variables of tests/failing/calls.c.
"""

import ctypes
import gc
import json
import os
import signal
import sys
import threading
import time
import traceback
import urllib.request
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from socket import socket
from typing import Any

from PIL import Image
from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QApplication, QLabel

from app import cli
from app.commands import doctor, models, plan, run, serve
from app.defaults.places import keep_generation_config
from app.language import use
from app.state.preferences import PreferencesState, chosen_language
from app.state.presets import AnswerLimits
from app.state.talk.disk.picture_files import PictureError
from app.state.talk.disk.store import ChatStore
from app.state.talk.embedder import MAGIC as VECTORS
from app.state.talk.message import Message, Picture, Role
from app.state.workbench import Workbench, config_folder, data_folder
from app.tools.config import ServerConfig, write_servers
from app.tools.consent import consent_file
from app.widgets.plots.canvas import toolkit
from app.window.program import shown_window
from engine import prefixes
from engine.backends.opencl.drivers.device import list_devices
from engine.backends.opencl.drivers.trials import MAGIC
from engine.backends.opencl.source import kept_folder
from engine.backends.opencl.tuned import TuningFile, key_of, own_folder
from engine.kept import write_atomically, write_sealed
from engine.models.vision.build import families
from engine.protocol import Sampling
from engine.tuner.__main__ import keep
from tests.damage.forked import fork_workers

__all__ = ["doctor", "models", "plan", "run", "serve"]  # imported before a door forks

PATIENCE = 150  # seconds that a door may take on a busy machine
DEVICE = "intel:0"
ASKED = "What is there?"
GREEDY = ("--device", DEVICE, "--ctx", "512", "--temp", "0", "--max-tokens", "3")


def run_door(model: str) -> int:
    """`cutaway run`, one answer."""
    return cli.main(["run", model, "-p", ASKED, *GREEDY])


def models_door(model: str) -> int:
    """`cutaway models`."""
    return cli.main(["models"])


def doctor_door(model: str) -> int:
    """`cutaway doctor --repair`, which is not given consent: what it looks at of kept files."""
    return cli.main(["doctor", "--repair", "--json"])


def serve_door(model: str) -> int:
    """`cutaway serve`, which answers one client and is ended by Ctrl+C."""
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    threading.Thread(target=_client, args=(f"http://127.0.0.1:{port}",), daemon=True).start()
    return cli.main(["serve", model, "--port", port, *GREEDY[:4]])


def _client(address: str) -> None:
    body = {"model": "any", "temperature": 0, "max_tokens": 3, "stream": False}
    body["messages"] = [{"role": "user", "content": ASKED}]
    request = urllib.request.Request(
        f"{address}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    while True:
        try:
            with urllib.request.urlopen(request) as response:
                told = json.load(response)["choices"][0]["message"]["content"]
                break
        except OSError as error:
            loading = getattr(error, "code", 0) == 503
            refused = isinstance(getattr(error, "reason", None), ConnectionRefusedError)
            if not loading and not refused:
                told = f"{error}: {getattr(error, 'read', bytes)()!r}"
                break
            time.sleep(0.02)
    os.write(3, f"{told}\n".encode())
    os.kill(os.getpid(), signal.SIGINT)


def window_door(model: str) -> int:
    """The window: what it shows of chats, the answer to a question, and every sentence in it."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    use(chosen_language() or "en")
    app = QApplication(["cutaway"])
    said: list[str] = []
    with shown_window(app, Path(model)) as window:
        bench = window.bench
        for told_by in (bench.chat.problem, bench.chats.problem, bench.session.refused):
            told_by.connect(lambda problem: said.append(problem.text))
        _wait(app, lambda: bench.session.status in ("ready", "failed", "idle", "died"))
        told: dict[str, Any] = {
            "chats": [row.title for row in bench.chats.rows],
            "theme": bench.preferences.value.theme,
        }
        rows = [row for row in bench.chats.rows if row.title == "first"]
        if rows:
            bench.chat.open(rows[0].id)
            told["messages"] = [message.text for message in bench.chat.path]
            told["pictures"] = [_shown(bench, one, said) for one in bench.chat.path]
        for _ in range(2):  # prepared weights are checked before the second answer, not the first
            bench.chat.open(None)
            bench.chat.details.set_sampling(Sampling(temperature=0))
            bench.chat.details.set_limits(AnswerLimits(max_tokens=3))
            if bench.session.status == "ready" and bench.chat.send(ASKED):
                _wait(app, lambda: not bench.chat.busy)
                told["answer"] = bench.chat.path[-1].text[:12]
        for banner in window.talk.notices.findChildren(QLabel):
            said.append(banner.text())
        said += [bench.session.error.text] if bench.session.error else []
        said += list(bench.notices)
    os.write(3, json.dumps(told).encode())
    print("\n".join(said))
    return 0


def _shown(bench: Workbench, message: Any, said: list[str]) -> list[str]:
    """The hashes of a message's pictures that can be shown."""
    found = []
    for picture in message.pictures:
        try:
            data = bench.store.pictures.files.read(picture.hash, picture.name)
            Image.open(BytesIO(data)).load()
            found.append(picture.hash[:8])
        except (PictureError, OSError) as error:
            said.append(f"{picture.name}: {picture.hash}: {error}")
    return found


def _wait(app: QCoreApplication, until: Callable[[], bool]) -> None:
    while not until():
        app.processEvents()
        time.sleep(0.002)


def fill(model: str) -> int:
    """What a person leaves behind: chats with a picture and a draft, preferences, measurements."""
    store = ChatStore(data_folder() / "chats.sqlite")
    picture = BytesIO()
    Image.effect_noise((96, 96), 90).save(picture, "PNG")
    for title in ("second", "first"):
        chat, parent = store.create(title), None
        for n in range(40):
            seen = (Picture(store.pictures.keep(picture.getvalue(), "a.png"), "a.png"),)
            pictures = seen if title == "first" and n == 0 else ()
            role: Role = "assistant" if n % 2 else "user"
            text = f"message {n} of {title} " + "words " * 150
            message = Message(0, chat, parent, role, text, time.time(), pictures=pictures)
            store.add(message)
            parent = message.id
        store.update(chat, draft="half a thought")
    store.close()
    QCoreApplication.instance() or QCoreApplication([])
    preferences = PreferencesState(config_folder() / "preferences.json")
    preferences.update(theme="dark", default_ctx=1024, models_folder=None)
    preferences.close()
    (device,) = [one for one in list_devices() if one.name == DEVICE]
    bits = 32 * device.traits.vector_ints
    name = key_of(DEVICE.partition(":")[0], device.title, bits)
    rows = prefixes.Head([1, 2, 3], [prefixes.Part("cache_k_l0", 0, 4096)])
    prefixes.write(
        prefixes.file_of("0" * 40), prefixes.Saved(rows, memoryview(bytes(4096))), 1 << 20
    )
    keep(own_folder() / f"{name}.json", TuningFile({"panel": 4}, device.title))
    trial = kept_folder("trials") / f"{'0' * 32}.sealed"
    write_sealed(trial, MAGIC, b'[{"way":"AMD","refused":""}]')
    write_sealed(data_folder() / "vectors" / f"{'0' * 64}.sealed", VECTORS, b"no vectors")
    keep_generation_config("0" * 40, b'{"temperature": 0.5}')
    write_servers(config_folder() / "mcp.json", [ServerConfig("notes", command="notes-server")])
    write_atomically(consent_file(), b'{"servers": {}, "tools": {"own/calculator": "0f"}}')
    return 0


DOORS: dict[str, Callable[[str], int]] = {
    "run": run_door,
    "serve": serve_door,
    "doctor": doctor_door,
    "models": models_door,
    "window": window_door,
}
OTHERS: dict[str, Callable[[str], int]] = {
    "mend": lambda model: cli.main(["doctor", "--repair", "--yes"]),
    "fill": fill,
    "measure": lambda model: cli.main(["plan", model, "--measure", *GREEDY[:4]]),
}


def _child(asked: dict[str, Any], folder: Path) -> int:
    for number, name in ((1, "out"), (2, "err"), (3, "told")):
        handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(handle, number)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)
    os.environ |= asked["fail"]
    if asked["fail"]:
        ctypes.CDLL(None).calls_from_environment()
    try:
        status = (DOORS | OTHERS)[asked["door"]](asked["model"])
    except BaseException:  # noqa: BLE001  whatever it is, it is shown
        traceback.print_exc()
        status = 70
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def main() -> None:
    """Forks a child for each line."""
    folder = Path(sys.argv[1])
    fork_workers()
    families()
    toolkit()
    gc.collect()
    gc.freeze()  # no child searches what was imported for garbage
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            os._exit(_child(asked, folder))
        deadline, late = time.monotonic() + PATIENCE, False
        while not (done := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > deadline:
                late, deadline = True, deadline + PATIENCE
                os.killpg(child, signal.SIGKILL)
            time.sleep(0.005)
        told = {
            name: (folder / name).read_text(errors="replace") for name in ("out", "err", "told")
        }
        status = os.waitstatus_to_exitcode(done[1])
        print(json.dumps(told | {"status": status, "late": late}), flush=True)


if __name__ == "__main__":
    main()
