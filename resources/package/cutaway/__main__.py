"""`python -m cutaway` is `cutaway`.

In an app that Briefcase makes, `sys.executable` is the app itself. The program starts its children
with it as with Python, so that `-m MODULE` and `-P FILE` run those.
"""

import runpy
import sys

import cutaway  # noqa: F401  finds the program's parts
from app.cli import main


def _run(words: list[str]) -> int:
    match words:
        case ["-m", module, *_]:
            del sys.argv[1:3]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-P", file, *_]:
            del sys.argv[1:3]
            runpy.run_path(file, run_name="__main__")
        case _:
            return main()
    return 0


if __name__ == "__main__":
    raise SystemExit(_run(sys.argv[1:]))
