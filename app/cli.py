"""`cutaway` and its subcommands.

A subcommand is a module of `app.commands` with `NAME`, `HELP`, `configure(parser)` and
`run(args) -> exit status`; only the one that is requested gets imported. Every error becomes
one line here; the details of an unexpected one go to a log file.
"""

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import NoReturn

import app.commands
from app.files import problem
from app.terminal.text import OutputError, print_json, shortened, tame, tamed_output
from app.version import version
from engine.errors import CutawayError
from engine.settings import SETTINGS
from engine.system import end_where_a_file_is_cut

CLOSED = "cutaway: error: the standard output is closed; send it to a file or to /dev/null"
TOO_MANY_FILES = "too many open files; raise the limit, as with `ulimit -n 1024`, and try again"
OUT_OF_MEMORY = "not enough memory; close other programs, or raise the limit (`ulimit -v`)"
NO_ROOM = "failed to map segment", "annot allocate memory"  # the loader's words for a library
# On Windows files and pipes get the user's code page, which lacks most of what models write.
OUTPUT_ENCODING = "utf-8" if sys.platform == "win32" else None
OK, FAILED, USAGE, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141


class UsageError(CutawayError):
    """A command line that cannot be understood."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is one line, as all our errors are."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see `{self.prog} --help`")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit status: 0, 1 failed, 2 usage, 130, 141."""
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        end_where_a_file_is_cut()
    if sys.stderr is None:  # closed, as `2>&-` does
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the whole process
    if sys.stdout is None:
        if words[:1] not in ([], ["window"]):
            print(CLOSED, file=sys.stderr)
            return FAILED
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as above
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name or text that it cannot write
            stream.reconfigure(encoding=OUTPUT_ENCODING, errors="replace")
    with tamed_output():
        return _main(words)


def _main(words: list[str]) -> int:
    try:
        status = _run(words)
        sys.stdout.flush()
    except UsageError as error:
        return _report(words, error.kind, str(error), USAGE)
    except CutawayError as error:
        return _report(words, error.kind, str(error), FAILED)
    except BrokenPipeError:
        return _leave_pipe()
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return INTERRUPTED
    except OutputError as error:
        return _leave_stdout(error)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return _report(words, "OSError", TOO_MANY_FILES, FAILED)
        if error.filename is None:
            return _report(words, "Unexpected", _unexpected(error), FAILED)
        return _report(words, "OSError", problem(error), FAILED)
    except MemoryError:
        return _report(words, "OutOfMemory", OUT_OF_MEMORY, FAILED)
    except UnicodeEncodeError as error:
        wrong = [word for word in words if not _is_text(word)]
        if not wrong:
            return _report(words, "Unexpected", _unexpected(error), FAILED)
        text = f"{repr(os.fsencode(wrong[0]))[1:]} is not UTF-8; rename the file, or link to it"
        return _report(words, "BadSetting", text, FAILED)
    except ImportError as error:
        is_short = any(words in str(error) for words in NO_ROOM)
        text = OUT_OF_MEMORY if is_short else _unexpected(error)
        return _report(words, "OutOfMemory" if is_short else "Unexpected", text, FAILED)
    except Exception as error:  # noqa: BLE001  the outermost place: nobody else can report it
        return _report(words, "Unexpected", _unexpected(error), FAILED)
    return status


def _run(words: list[str]) -> int:
    if words and not words[0].startswith("-"):
        command = _command(words[0])
        parser = Parser(prog=f"cutaway {command.NAME}", description=command.HELP)
        command.configure(parser)
        args = _parse(parser, words[1:], getattr(command, "MIXED", False))
        if args is None:
            return OK
        _check_settings()
        return int(command.run(args))
    if not words:
        _check_settings()
        from app.commands.window import open_window

        return open_window()
    parser = Parser(
        prog="cutaway", description="Chat with a local model and inspect how it computes."
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    if "-h" in words or "--help" in words:
        parser.usage = "cutaway [-h] [--version] [COMMAND ...]"
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.description = f"{parser.description} Without a command, the window opens."
        parser.epilog = _overview()
        parser.print_help()
        return OK
    if parser.parse_args(words).version:
        print(f"cutaway {version()}")
    return OK


def _check_settings() -> None:
    """Raises BadSetting here, where it is a sentence, and not in a worker as that starts."""
    for setting in SETTINGS:
        setting.get()


def _parse(parser: Parser, words: list[str], mixed: bool) -> argparse.Namespace | None:
    try:
        return parser.parse_intermixed_args(words) if mixed else parser.parse_args(words)
    except SystemExit:  # --help, which argparse has answered
        return None


def _names() -> list[str]:
    return [m.name.replace("_", "-") for m in iter_modules(app.commands.__path__)]


def _command(name: str) -> ModuleType:
    if name in _names():
        module = import_module(f"app.commands.{name.replace('-', '_')}")
        if hasattr(module, "NAME"):
            return module
    names = [module.NAME for module in commands()]
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
    raise UsageError(f"no command {name!r}; {hint}")


def commands() -> list[ModuleType]:
    modules = [import_module(f"app.commands.{name.replace('-', '_')}") for name in _names()]
    return [module for module in modules if hasattr(module, "NAME")]


def _overview() -> str:
    lines = ["commands (each has --help):"]
    lines += [f"  {module.NAME:<12} {module.HELP}" for module in commands()]
    lines += ["", "environment:"]
    lines += [f"  {setting.name:<16} {setting.help}" for setting in SETTINGS]
    return "\n".join(lines)


def _report(words: Sequence[str], kind: str, message: str, status: int) -> int:
    line = shortened(tame(" ".join(message.split())))
    try:
        if "--json" in words:
            print_json({"error": {"kind": kind, "message": line}})
        else:
            print(f"cutaway: error: {line}", file=sys.stderr, flush=True)
    except BrokenPipeError:
        return _leave_pipe()
    except OutputError:
        _leave_pipe()
    return status


def _leave_pipe() -> int:
    # Python flushes stdout once more at exit; without a reader that would print a traceback.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


def _leave_stdout(error: OSError) -> int:
    """The status where the standard output takes no more, such as on a full disk."""
    _leave_pipe()
    print(f"cutaway: error: the standard output: {error.strerror}", file=sys.stderr, flush=True)
    return FAILED


def _is_text(word: str) -> bool:
    """False for bytes that are not UTF-8, which Python keeps as halves of characters."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unexpected(error: Exception) -> str:
    import time
    import traceback

    from engine.settings import log_folder

    what = f"unexpected {type(error).__name__}: {error}"
    try:
        path = log_folder() / "errors.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as log:
            log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {version()}\n")
            traceback.print_exception(error, file=log)
    except (OSError, CutawayError) as failure:
        return f"{what}; its details could not be written: {failure}"
    return f"{what}; details are in {path}"
