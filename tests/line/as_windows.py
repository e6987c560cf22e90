"""Our modules as if on Windows, under the whole of pytest: `pytest -p tests.line.as_windows PATHS`.

Each module of `engine` and `app` reads `sys.platform` as "win32", cannot import `fcntl` or
`resource`, opens nothing of /proc and /sys, moves and deletes no file that is open, and finds
`os`, `socket`, `signal` and `mmap` without what Linux alone has; `msvcrt` and kernel32's jobs are
stand-ins, and a named pipe is a socket at a path. Packages of others stay on their own system.
Programs that tests start do the same, by a `sitecustomize` on their path. Tests marked
`only_linux` are skipped with its reason.
"""

import atexit
import ctypes
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import marshal
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.line.elsewhere import (
    MARK,
    MODULES,
    NAMES,
    ROOT,
    caller,
    jobs_stand_in,
    locking_stand_in,
    of_linux,
    refuse,
)

OURS = ("engine", "app")
_THERE = "tests.line.as_windows"
_PLATFORM = re.compile(r"\bsys\.platform\b")
_MISSING = re.compile(rf"^(\s*)import ({'|'.join(MODULES)})\b", re.MULTILINE)
_IMPORT = re.compile(r"^(\s*)import (ctypes|os|socket|signal|mmap|msvcrt)$", re.MULTILINE)


class _Without(types.ModuleType):
    """A module less some names, or with more. Others are looked up each time: a test may replace
    them.
    """

    def __init__(self, module: types.ModuleType, missing: Sequence[str], **more: object) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(more, _module=module, _missing=frozenset(missing), _replaced={})

    def __getattr__(self, name: str) -> object:
        if name in self._missing or (self.__name__ == "mmap" and name.startswith("MADV_")):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(self._module, name)

    def __setattr__(self, name: str, value: object) -> None:
        self._replaced.setdefault(name, getattr(self._module, name))
        setattr(self._module, name, value)

    def __delattr__(self, name: str) -> None:
        """Put back what a test has replaced: none of this is the object's own."""
        setattr(self._module, name, self._replaced.pop(name))


ADDED = {"socket": {"SO_EXCLUSIVEADDRUSE": socket.SO_REUSEADDR}}


def _reduced() -> dict[str, types.ModuleType]:
    missing: dict[str, list[str]] = {}
    for module, names in NAMES:
        missing.setdefault(module.__name__, []).extend(names)
    return {
        name: _Without(importlib.import_module(name), gone, **ADDED.get(name, {}))
        for name, gone in missing.items()
    }


REDUCED = _reduced() | {
    "ctypes": _Without(ctypes, (), **jobs_stand_in()),
    "msvcrt": locking_stand_in(),
}


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> types.CodeType:
        """Compiled by the first process of a run that imports it."""
        kept = Path(os.environ[MARK]) / fullname
        with suppress(OSError):
            return marshal.loads(kept.read_bytes())  # type: ignore[no-any-return]
        made = self._made(self.get_filename(fullname))
        with suppress(OSError):
            unique = kept.with_name(f"{fullname}-{os.getpid()}")
            unique.write_bytes(marshal.dumps(made))
            unique.replace(kept)
        return made

    def _made(self, path: str) -> types.CodeType:
        text = Path(path).read_text("utf-8")
        text = _PLATFORM.sub('"win32"', text)
        text = _IMPORT.sub(
            rf"\1{_THERE.replace('.', '_')} = __import__('sys').modules['{_THERE}'];"
            rf" \2 = {_THERE.replace('.', '_')}.REDUCED['\2']",
            text,
        )
        text = _MISSING.sub(r"\1raise ImportError('no \2 on Windows')", text)
        text = text.replace('"AF_PIPE"', '"AF_UNIX"')
        code: types.CodeType = compile(text, path, "exec", dont_inherit=True)
        return code


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
    sys.addaudithook(_refuse)
    for flag in ("CREATE_NEW_PROCESS_GROUP", "CREATE_NO_WINDOW"):
        vars(subprocess).setdefault(flag, 0)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and of_linux(event, arguments) and caller() in OURS:
        refuse(arguments[0])
    if event in ("os.rename", "os.remove") and caller() in OURS:
        paths = [
            os.path.abspath(one) for one in arguments[:2] if isinstance(one, str | os.PathLike)
        ]
        if any(path in _open_files() for path in paths):
            raise PermissionError(13, "the file is open", str(arguments[0]))


def _open_files() -> set[str]:
    """The files that this process has open or mapped: Windows moves and deletes none of them."""
    found = set()
    for handle in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.add(os.readlink(f"/proc/self/fd/{handle}"))
    return found


def _children() -> None:
    folder = Path(tempfile.mkdtemp(prefix="as-windows-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    code = f"import sys\nsys.path.append({str(ROOT)!r})\nimport {_THERE} as t\nt.go_there()\n"
    (folder / "sitecustomize.py").write_text(code)
    there = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), there)))
    os.environ[MARK] = str(folder)


if MARK not in os.environ:
    _children()
    go_there()
