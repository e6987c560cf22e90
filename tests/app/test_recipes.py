"""app/README.md followed by the letter, in a copy of the tree: a command, a setting, a state and a
view, which work together in a window and fit the tree's order.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.recipes import followed

ROOT = Path(__file__).parents[2]
WINDOW = """
from PySide6.QtWidgets import QApplication
from app.state.workbench import Workbench
from app.theme.theme import Theme
from app.views.letters import LettersView
from app.views.preferences import PreferencesView
from app.window.main_window import MainWindow
from app.window.panes.pages import PAGES
from tests.app.helpers.scripted import ScriptedEngine

app = QApplication([])
engine = ScriptedEngine()
bench, theme = Workbench(engine), Theme(app)
engine.deliver = bench.client.drain
window = MainWindow(bench, theme)
window.show()
bench.open_model("a.gguf")
engine.load_done()
assert bench.chat.send("What is 2 + 2?")
assert bench.letters.count == 6
view = window.inspector.view(LettersView)
assert view.caption.text() == "6 letters"
(page,) = [page for page in PAGES if page.id == "letters"]
report = page.report(bench, view)
assert (list(report.words), report.data()) == (["6 letters"], {"letters": 6})
preferences = PreferencesView(bench.preferences)
assert preferences.letters.isChecked()
preferences.letters.click()
assert view.caption.text() == "0 letters"
bench.preferences.save()
assert b'"letters_counted": false' in bench.preferences.path.read_bytes()
window.close()
bench.close()
print("DONE")
os_exit = __import__("os")._exit
__import__("sys").stdout.flush()
os_exit(0)  # without Qt's own end of a process, which is not what is tested
"""


def run(tree: Path, home: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    """Python in the copy, which wins over what is installed."""
    folders = {
        f"XDG_{kind}_HOME": str(home / kind) for kind in ("CONFIG", "DATA", "CACHE", "STATE")
    }
    env = {**os.environ, **folders, "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(tree)}
    return subprocess.run(
        [sys.executable, *command], cwd=tree, env=env, capture_output=True, text=True, timeout=300
    )


def test_the_recipes(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for folder in ("app", "engine", "kernels_cl", "resources", "tests/app/helpers"):
        # With what is compiled, as times are kept; not with what another process compiles now.
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("*.pyc.*"))
    files = "tests/__init__.py", "tests/app/__init__.py", "tests/parsed.py", "tests/test_tree.py"
    for file in files:
        shutil.copy(ROOT / file, tree / file)
    shutil.copy(ROOT / "pyproject.toml", tree)
    before = {path: path.read_bytes() for path in tree.rglob("*.py")}
    named = followed(ROOT / "app" / "README.md", tree)
    touched = {p for p in tree.rglob("*.py") if before.get(p) != p.read_bytes()}
    assert {str(path.relative_to(tree)) for path in touched} == set(named)
    assert len(named) == 13
    done = run(tree, tmp_path, "-m", "app", "letters", "a b 3 c")
    assert (done.stdout, done.stderr) == ("3\n", "")
    done = run(tree, tmp_path, "-c", WINDOW)
    assert done.stdout == "DONE\n", done.stderr
    checks = ("test_imports_follow_the_order", "test_every_part_is_there", "test_no_import_goes")
    done = run(
        tree, tmp_path, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-o", "addopts=",
        "tests/test_tree.py", "-k", " or ".join(checks),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
