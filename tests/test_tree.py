"""The tree itself: who imports whom, how long a module is, what lies at the top.

The order of parts is the data's way through the program; a part imports only what stands before
it. Parts in one row do not import each other.
"""

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.parsed import all_nodes, nodes

ROOT = Path(__file__).parent.parent
ORDER = [
    ("engine.units", "engine.progress", "engine.system"),
    ("engine.errors",),
    ("engine.settings",),
    ("engine.kept", "engine.patterns"),
    ("engine.prefixes",),
    ("engine.images",),
    ("engine.protocol",),
    ("engine.gguf",),
    ("engine.arrays",),
    ("engine.answers", "engine.tokenizer"),
    ("engine.graph",),
    ("engine.device",),
    ("engine.memory",),
    ("engine.scheduler",),
    ("engine.backends.host", "engine.backends.opencl"),
    ("engine.selftest",),
    ("engine.tuner",),
    ("engine.weights.prepared.file",),
    ("engine.weights",),
    ("engine.kvcache",),
    ("engine.layers",),
    ("engine.models",),
    ("engine.sampling",),
    ("engine.runner",),
    ("engine.inside",),
    ("engine.laboratory",),
    ("engine.worker",),
    # The app. Widgets know no domain, state knows no widgets, and a view of one area knows no other
    # area's views, but for those in a row before it.
    ("app.language",),
    ("app.translated",),
    (
        "app.directions",
        "app.engine",
        "app.files",
        "app.inbox",
        "app.local_files",
        "app.names",
        "app.trust",
        "app.turn",
        "app.guides",
        "app.version",
        "app.weights",
        "app.words",
    ),
    ("app.documents",),
    ("app.tools",),
    ("app.shared",),
    ("app.remote",),
    ("app.defaults",),
    ("app.terminal",),
    ("app.bench", "app.checks"),
    ("app.report",),
    ("app.client", "app.headers", "app.local_engine", "app.work", "app.stores"),
    ("app.fetch",),
    ("app.library",),
    ("app.storage",),
    ("app.serve",),
    ("app.theme",),
    ("app.widgets",),
    (
        "app.state.history",
        "app.state.live",
        "app.state.log",
        "app.state.presets",
        "app.state.problem",
        "app.state.report",
        "app.state.selection",
        "app.state.wanted",
    ),
    ("app.state.preferences",),
    ("app.state.session", "app.state.tools"),
    (
        "app.state.graph",
        "app.state.layers",
        "app.state.memory",
        "app.state.models",
        "app.state.profile",
        "app.state.talk",
    ),
    ("app.state.pair", "app.state.served", "app.state.token", "app.state.trial"),
    ("app.state.lab", "app.state.tensors"),
    ("app.state.workbench",),
    (
        *("app.views.graph", "app.views.guide", "app.views.log", "app.views.news"),
        "app.views.preferences",
        *("app.views.report_sheet", "app.views.selection"),
    ),
    ("app.views.talk",),
    ("app.views.token",),
    (
        "app.views.lab",
        "app.views.layers",
        "app.views.memory",
        "app.views.profile",
        "app.views.tensors",
        "app.views.trial",
    ),
    ("app.views.models", "app.views.pair"),
    ("app.window",),
    ("app.commands",),
    ("app.cli",),
    ("app.__main__",),
]
ROW = {part: row for row, parts in enumerate(ORDER) for part in parts}
# What the app takes from the engine; the tokenizer only to show what it does, the two formats of
# kept files to check them.
APP_TAKES = (
    *("engine.units", "engine.errors", "engine.settings", "engine.kept", "engine.protocol"),
    *("engine.prefixes", "engine.weights.prepared.file"),
    *("engine.patterns", "engine.system"),
    *("engine.gguf", "engine.arrays", "engine.answers", "engine.tokenizer", "engine.worker"),
)
# Within a part: which folder imports nothing of which others.
OPENCL = "engine.backends.opencl"
APART = {
    f"{OPENCL}.drivers": (f"{OPENCL}.launches", f"{OPENCL}.lowering", f"{OPENCL}.tiles"),
    f"{OPENCL}.tiles": (f"{OPENCL}.launches", f"{OPENCL}.lowering", f"{OPENCL}.drivers"),
    f"{OPENCL}.launches": (f"{OPENCL}.lowering", f"{OPENCL}.drivers", f"{OPENCL}.program"),
    f"{OPENCL}.lowering": (f"{OPENCL}.drivers", f"{OPENCL}.program"),
    # A dialect knows no other, and all that serves knows the engine by its messages alone.
    "app.serve.openai": ("app.serve.native", "app.serve.anthropic", "app.serve.ollama"),
    "app.serve.anthropic": ("app.serve.native", "app.serve.openai", "app.serve.ollama"),
    "app.serve.ollama": ("app.serve.native", "app.serve.openai", "app.serve.anthropic"),
    "app.serve.native": ("app.serve.ollama", "app.serve.openai", "app.serve.anthropic"),
    "app.serve.ranking": ("app.serve.ollama", "app.serve.openai", "app.serve.native"),
    # What serves runs no tools: calls go to the client.
    "app.serve": ("app.local_engine", "app.tools"),
    "app.commands.serve": ("app.tools",),
}
QT = ("PySide6", "pyqtgraph")
# Where Qt may be: nothing that the command line needs waits for it.
QT_PARTS = (
    *("app.client", "app.inbox", "app.turn", "app.work", "app.theme", "app.widgets"),
    *("app.state", "app.views", "app.window", "app.commands.window"),
)
# The only modules that know that the window's engine is a process.
LOCAL_ENGINE, KNOW_IT = "app.local_engine", {"app.window.program", "app.commands.serve"}
# Who starts which module as a process of its own: an edge as an import is, though no name is bound.
STARTS = {
    "engine.backends.opencl.diagnose": {"engine.backends.opencl.diagnose"},
    "engine.backends.opencl.drivers.trials": {"engine.backends.opencl.attempt"},
    "app.report.first_run": {
        *("engine.backends.opencl.costs", "engine.backends.opencl.drivers.trials"),
        "engine.runner.programs",
    },
    "engine.worker.handle": {"engine.worker"},
    "app.bench.against": {"app.bench.peer"},
    "app.checks.processes": {
        *("engine.selftest", "engine.backends.opencl.diagnose", "engine.tuner")
    },
    "app.report.gather": {"engine.backends.opencl.properties"},
    "app.documents.pdf": {"app.documents.pdf"},
    "app.widgets.pictures.loader": {"engine.images.shrink"},
}
# The one command that opens the window; the others know nothing of it.
WINDOW_COMMAND = "app.commands.window"
OF_THE_WINDOW = ("app.theme", "app.widgets", "app.state", "app.views", "app.window")
PACKAGES = ("engine", "engine.backends", "app", "app.state", "app.views")
TOP = {
    *("pyproject.toml", "README.md", "LICENSE"),
    *("app", "engine", "kernels_cl", "resources", "tests"),
}
# Whose modules are one architecture each: by contract they define classes of the same names.
ONE_CONTRACT = "engine.models"
LONGEST = 600
LONGEST_FUNCTION = 50
MOST_LONGER = 10  # functions that are longer still; only ever fewer
MOST_PRIVATE = 26  # attributes of others that tests read; lower it with the count, never raise it
OPEN = (
    "_replace",
    "_asdict",
    "_fields",
    "_make",
    "_getframe",
    "_exit",
    "_current_frames",
)  # named so, yet public
PRIVATE = re.compile(rf"(?!({'|'.join(OPEN)})$)_[^_].*")
APP = re.compile(r"\b(import|from)\b.*\bapp\b")
REACHES_IN = re.compile(r"[\w)\]]\._[a-zA-Z]")
MOST_MODULES = 25
# Folders of siblings that answer one question each: nobody reads them as a whole.
TABLES = {
    "kernels_cl": "a family of kernels each",
    "tests/kernels": "a family of kernels each",
    "engine/backends/opencl/launches": "a family of launches each",
    "engine/models/text": "an architecture each",
    "engine/models/vision": "a tower each",
    "tests/goldens/vision/files": "a family of towers each",
    "tests/goldens/vision/references": "a family of towers each",
    "app/commands": "a command each",
    "tests/app/commands": "a command each",
}
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


class Content(NamedTuple):
    """What a module imports, its classes, its functions with their lines, and the modules that its
    texts name.
    """

    imports: tuple[str, ...]
    classes: tuple[str, ...]
    functions: tuple[tuple[str, int], ...]
    named: frozenset[str]


@cache
def content(path: Path) -> Content:
    """Read once for all tests; `from a import b` counts as a.b where that is a module."""
    imports: list[str] = []
    classes: list[str] = []
    functions: list[tuple[str, int]] = []
    named: set[str] = set()
    for node in all_nodes(path):
        if isinstance(node, ast.Import):
            imports += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import, line {node.lineno}"
            base = node.module or ""
            whole = [f"{base}.{alias.name}" for alias in node.names]
            imports += [full if full in MODULES else base for full in whole]
        elif isinstance(node, ast.ClassDef):
            classes.append(node.name)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.append((node.name, (node.end_lineno or node.lineno) - node.lineno + 1))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named |= {node.value} & PROGRAMS
    return Content(tuple(imports), tuple(classes), tuple(functions), frozenset(named))


def part(module: str) -> str | None:
    """The row's entry a module belongs to; None for the packages above them."""
    return next((p for p in ROW if module == p or module.startswith(p + ".")), None)


def inside(module: str, *packages: str) -> bool:
    return any(module == p or module.startswith(p + ".") for p in packages)


MODULES = modules()
PROGRAMS = {name for name in MODULES if "." in name}  # a text of one word is no module's name


def test_imports_follow_the_order() -> None:
    wrong = {name: barred(name, set(content(path).imports)) for name, path in MODULES.items()}
    assert {name: sorted(found) for name, found in wrong.items() if found} == {}


def barred(name: str, found: set[str]) -> set[str]:
    """What a module imports and must not."""
    own = part(name)
    ours = {m for m in found if inside(m, "engine", "app")}
    if own is None:
        return ours
    wrong = {m for m in ours if not may_import(name, own, m)}
    for folder, others in APART.items():
        if inside(name, folder):
            wrong |= {m for m in found if inside(m, *others)}
    if not inside(name, OPENCL):
        wrong |= {m for m in found if inside(m, "pyopencl")}
    if not inside(name, *QT_PARTS):
        wrong |= {m for m in found if inside(m, *QT)}
    if inside(name, "app.state"):
        wrong |= {m for m in found if inside(m, "app.theme", "app.widgets", "PySide6.QtWidgets")}
    if inside(name, "app.commands") and name != WINDOW_COMMAND:
        wrong |= {m for m in found if inside(m, *OF_THE_WINDOW)}
    return wrong


def test_what_must_not_be_imported_is_found() -> None:
    """One import for each kind of wall."""
    for name, other in (
        ("app", "engine.graph"),
        ("engine.graph.tensor", "engine.runner"),
        ("app.views.talk.chat", "engine.runner"),
        ("app.serve.openai.chat", "app.serve.ollama.talk"),
        ("engine.gguf.reader", "pyopencl"),
        ("engine.gguf.reader", "PySide6.QtCore"),
        ("app.state.session", "PySide6.QtWidgets"),
        ("app.commands.run", "app.window"),
    ):
        assert barred(name, {other, "numpy", "engine.errors"} - {name}) >= {other}
        assert "numpy" not in barred(name, {other, "numpy"})


def test_one_module_chooses_the_engine() -> None:
    """All others see an Engine: a remote one must fit without touching them."""
    assert {n for n, path in MODULES.items() if LOCAL_ENGINE in content(path).imports} == KNOW_IT


def test_what_runs_as_a_process_is_known() -> None:
    """The name of a module in a text hides from the imports; what it starts must exist."""
    found = {n: content(path).named for n, path in MODULES.items() if content(path).named}
    assert found == STARTS
    for program in set().union(*STARTS.values()):
        main = MODULES.get(f"{program}.__main__", MODULES[program])
        assert '__name__ == "__main__"' in main.read_text("utf-8")


def may_import(name: str, own: str, other: str) -> bool:
    theirs = part(other)
    if theirs is None:
        return other in PACKAGES
    if theirs == own:
        return True
    if inside(own, "app") and inside(theirs, "engine"):
        return theirs in APP_TAKES
    return ROW[theirs] < ROW[own]


def test_every_module_belongs_to_a_part() -> None:
    assert [name for name in MODULES if part(name) is None and name not in PACKAGES] == []


def test_every_part_is_there() -> None:
    known = {name for module in MODULES for name in (module, *above(module))}
    assert [name for name in (*ROW, *PACKAGES) if name not in known] == []


def above(module: str) -> Iterator[str]:
    """The packages around a module."""
    parts = module.split(".")
    yield from (".".join(parts[:n]) for n in range(1, len(parts)))


def test_no_import_goes_in_a_circle() -> None:
    """Imports for types alone count too: who needs another's type knows the other. A module of
    another package imports that package before it.
    """
    graph = {}
    for name, path in MODULES.items():
        imports = set(content(path).imports) & set(MODULES)
        packages = {package for one in imports for package in above(one) if package in MODULES}
        graph[name] = imports | {package for package in packages if not inside(name, package)}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(f"imports in a circle: {' <- '.join(error.args[1])}") from None


@pytest.mark.parametrize("top", ["engine", "kernels"])
def test_tests_of_the_engine_know_no_app(top: str) -> None:
    wrong = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests" / top).rglob("*.py")
        if APP.search(path.read_text("utf-8"))  # few others are parsed
        and any(inside(m, "app") for m in content(path).imports)
    }
    assert wrong == set()


def test_no_folder_is_crowded() -> None:
    tops = ("app", "engine", "kernels_cl", "tests")
    files = [p for top in tops for p in (ROOT / top).rglob("*") if p.suffix in (".py", ".cl")]
    folders = Counter(
        str(p.parent.relative_to(ROOT))
        for p in files
        if p.name not in ("__init__.py", "conftest.py")
    )
    crowded = {folder for folder, count in folders.items() if count > MOST_MODULES}
    assert crowded <= set(TABLES), {folder: folders[folder] for folder in crowded - set(TABLES)}


def test_modules_are_short() -> None:
    files = [p for top in ("engine", "app", "tests") for p in (ROOT / top).rglob("*.py")]
    files += (ROOT / "kernels_cl").rglob("*.cl")
    lengths = sorted(((len(p.read_text("utf-8").splitlines()), p) for p in files), reverse=True)
    for length, path in lengths[:5]:
        print(f"{length:5} {path.relative_to(ROOT)}")
    assert [str(p.relative_to(ROOT)) for length, p in lengths if length > LONGEST] == []


def test_functions_are_short() -> None:
    long = [
        f"{module}.{name}: {length}"
        for module, path in MODULES.items()
        for name, length in content(path).functions
        if length > LONGEST_FUNCTION
    ]
    assert len(long) <= MOST_LONGER, long


def test_tests_reach_into_few_private_attributes() -> None:
    """Views have `report()` and named parts; what a test needs beyond them is theirs to show."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line, name in private(path.read_text("utf-8"))
    ]
    assert len(found) <= MOST_PRIVATE, "\n".join(found)


def private(text: str) -> Iterator[tuple[int, str]]:
    """Lines and names of attributes that are private to another object than `self`."""
    if not REACHES_IN.search(text):
        return
    for node in nodes(ast.parse(text)):
        if isinstance(node, ast.Attribute) and PRIVATE.fullmatch(node.attr):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not own:
                yield node.lineno, node.attr


def test_a_private_attribute_is_found() -> None:
    text = "class A:\n  def f(self): self._own, view._bar, a[0]._x(), b._replace(), c.__class__\n"
    assert list(private(text)) == [(2, "_bar"), (2, "_x")]


def test_a_class_name_has_one_meaning_in_its_package() -> None:
    defined: dict[tuple[str, str], list[str]] = {}
    for module, path in MODULES.items():
        if inside(module, ONE_CONTRACT):
            continue
        for name in content(path).classes:
            defined.setdefault((module.rpartition(".")[0], name), []).append(module)
    assert {name: found for name, found in defined.items() if len(found) > 1} == {}


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
