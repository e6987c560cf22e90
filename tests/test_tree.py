"""The tree itself: who imports whom, how long a module is, what lies at the top.

The order of parts is the data's way through the program; a part imports only what stands before
it. Parts in one row do not import each other.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ORDER = [
    ("engine.errors",),
    ("engine.settings",),
    ("engine.protocol",),
    ("engine.gguf",),
    ("engine.tokenizer", "engine.images"),
    ("engine.graph",),
    ("engine.backends.base",),
    ("engine.memory",),
    ("engine.scheduler",),
    ("engine.backends.host", "engine.backends.opencl"),
    ("engine.selftest",),
    ("engine.tuner",),
    ("engine.weights",),
    ("engine.kvcache",),
    ("engine.layers",),
    ("engine.models",),
    ("engine.sampling",),
    ("engine.runner",),
    ("engine.worker",),
    ("app",),
]
ROW = {part: row for row, parts in enumerate(ORDER) for part in parts}
# What the app takes from the engine; the tokenizer only to show what it does.
APP_TAKES = (
    *("engine.errors", "engine.settings", "engine.protocol"),
    *("engine.gguf", "engine.tokenizer", "engine.worker"),
)
# Within a part: which folder imports nothing of which others.
OPENCL = "engine.backends.opencl"
APART = {
    f"{OPENCL}.drivers": (f"{OPENCL}.launches", f"{OPENCL}.lowering", f"{OPENCL}.tiles"),
    f"{OPENCL}.tiles": (f"{OPENCL}.launches", f"{OPENCL}.lowering", f"{OPENCL}.drivers"),
    f"{OPENCL}.launches": (f"{OPENCL}.lowering", f"{OPENCL}.drivers", f"{OPENCL}.program"),
    f"{OPENCL}.lowering": (f"{OPENCL}.drivers", f"{OPENCL}.program"),
}
QT = ("PySide6", "pyqtgraph")
TOP = {
    *("pyproject.toml", "README.md", "LICENSE"),
    *("app", "engine", "kernels_cl", "resources", "tests"),
}
LONGEST = 400
# Home directories and work places: a path there means one person's machine.
MACHINE_PATH = re.compile(
    r"""["'\s=:(](/(?:work|home|Users|root|mnt|media|build)/\w|[A-Z]:\\Users)"""
)


def modules() -> dict[str, Path]:
    """Every module of the two packages by its dotted name."""
    files = (path for top in ("engine", "app") for path in (ROOT / top).rglob("*.py"))
    return {dotted(path): path for path in files}


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(name: str, path: Path) -> Iterator[str]:
    """What a module imports, anywhere in it; `from a import b` counts as a.b where that is one."""
    known = modules()
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: relative import, line {node.lineno}"
            base = node.module or ""
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield full if full in known else base


def part(module: str) -> str | None:
    """The row's entry a module belongs to; None for the packages above them."""
    return next((p for p in ROW if module == p or module.startswith(p + ".")), None)


def inside(module: str, *packages: str) -> bool:
    return any(module == p or module.startswith(p + ".") for p in packages)


MODULES = modules()


@pytest.mark.parametrize("name", sorted(MODULES))
def test_imports_follow_the_order(name: str) -> None:
    own = part(name)
    found = set(imports(name, MODULES[name]))
    ours = {m for m in found if inside(m, "engine", "app")}
    if own is None:
        assert not ours, f"{name} belongs to no part and imports {sorted(ours)}"
        return
    wrong = [m for m in ours if not may_import(name, own, m)]
    assert not wrong, f"{name} must not import {sorted(wrong)}"
    for folder, others in APART.items():
        assert not (inside(name, folder) and any(inside(m, *others) for m in found))
    if not inside(name, OPENCL):
        assert not any(inside(m, "pyopencl") for m in found)
    if name.startswith("engine"):
        assert not any(inside(m, *QT) for m in found)
    if inside(name, "app.state"):
        assert not any(inside(m, "app.views", "app.widgets", "PySide6.QtWidgets") for m in found)


def may_import(name: str, own: str, other: str) -> bool:
    theirs = part(other)
    if theirs is None:
        return other == "engine"
    if theirs == own:
        return True
    if own == "app":
        return theirs in APP_TAKES
    return ROW[theirs] < ROW[own]


def test_every_module_belongs_to_a_part() -> None:
    packages = {"engine", "engine.backends"}
    assert [name for name in MODULES if part(name) is None and name not in packages] == []


def test_modules_are_short() -> None:
    files = [p for top in ("engine", "app", "tests") for p in (ROOT / top).rglob("*.py")]
    files += (ROOT / "kernels_cl").rglob("*.cl")
    lengths = sorted(((len(p.read_text("utf-8").splitlines()), p) for p in files), reverse=True)
    for length, path in lengths[:5]:
        print(f"{length:5} {path.relative_to(ROOT)}")
    assert [str(p.relative_to(ROOT)) for length, p in lengths if length > LONGEST] == []


def test_the_top_holds_nothing_else() -> None:
    assert {name.split("/")[0] for name in tracked() if not name.startswith(".")} <= TOP


def test_no_file_names_a_machines_paths() -> None:
    named = []
    for name in tracked():
        if name.endswith((".py", ".cl", ".toml", ".md")) or name.startswith(".ci"):
            text = (ROOT / name).read_text("utf-8")
            named += [f"{name}: {m[1]}" for m in MACHINE_PATH.finditer(text)]
    assert named == []


def tracked() -> list[str]:
    """The files of the repository, or of the folder where there is no repository."""
    if (ROOT / ".git").exists():
        made = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        return [n for n in made.stdout.splitlines() if (ROOT / n).is_file()]
    return [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file()]
