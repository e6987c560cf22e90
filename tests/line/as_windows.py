"""Our modules as if on Windows, under the whole of pytest: `pytest -p tests.line.as_windows PATHS`.

Each module of `engine` and `app` reads `sys.platform` as "win32", and finds `os`, `socket`,
`signal` and `mmap` without what Linux alone has; `msvcrt` is a stand-in, and a named pipe is a
socket at a path. Packages of others stay on their own system. Programs that tests start do the
same, by a `sitecustomize` on their path.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import types
from collections.abc import Sequence
from pathlib import Path

from tests.line.elsewhere import NAMES, ROOT, locking_stand_in

OURS = ("engine", "app")
MARK = "CUTAWAY_AS_WINDOWS"
_THERE = "tests.line.as_windows"
_PLATFORM = re.compile(r"\bsys\.platform\b")
_IMPORT = re.compile(r"^(\s*)import (os|socket|signal|mmap|msvcrt)$", re.MULTILINE)


class _Without(types.ModuleType):
    """A module less some names. Others are looked up each time: a test may replace them."""

    def __init__(self, module: types.ModuleType, missing: Sequence[str]) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(_module=module, _missing=frozenset(missing))

    def __getattr__(self, name: str) -> object:
        if name in self._missing or (self.__name__ == "mmap" and name.startswith("MADV_")):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(self._module, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._module, name, value)


def _reduced() -> dict[str, types.ModuleType]:
    missing: dict[str, list[str]] = {}
    for module, names in NAMES:
        missing.setdefault(module.__name__, []).extend(names)
    return {name: _Without(importlib.import_module(name), gone) for name, gone in missing.items()}


REDUCED = _reduced() | {"msvcrt": locking_stand_in()}


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> types.CodeType:
        path = self.get_filename(fullname)
        text = Path(path).read_text("utf-8")
        text = _PLATFORM.sub('"win32"', text)
        text = _IMPORT.sub(
            rf"\1{_THERE.replace('.', '_')} = __import__('sys').modules['{_THERE}'];"
            rf" \2 = {_THERE.replace('.', '_')}.REDUCED['\2']",
            text,
        )
        text = text.replace('"AF_PIPE"', '"AF_UNIX"')
        return compile(text, path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):  # type: ignore[no-untyped-def]
        if fullname.partition(".")[0] not in OURS:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if found is not None and isinstance(found.loader, importlib.machinery.SourceFileLoader):
            found.loader = _Loader(found.loader.name, found.loader.path)
        return found


def go_there() -> None:
    """From here on, in this process."""
    sys.modules[_THERE] = sys.modules[__name__]
    sys.meta_path.insert(0, _Finder())
    for flag in ("CREATE_NEW_PROCESS_GROUP", "CREATE_NO_WINDOW"):
        vars(subprocess).setdefault(flag, 0)


def _children() -> None:
    folder = Path(tempfile.mkdtemp(prefix="as-windows-"))
    code = f"import sys\nsys.path.append({str(ROOT)!r})\nimport {_THERE} as t\nt.go_there()\n"
    (folder / "sitecustomize.py").write_text(code)
    there = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), there)))
    os.environ[MARK] = "1"


if MARK not in os.environ:
    _children()
    go_there()
