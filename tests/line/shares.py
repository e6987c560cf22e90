"""Modules of tests are rewritten and compiled once, not by each worker: each begins with a share.

In a fresh checkout that is most of what collecting costs.
"""

from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

from tests.program import ROOT


def import_share(config: pytest.Config) -> None:
    """Import this worker's share of the folders that are to be collected.

    What cannot be imported is left to the collection, which says so.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    number = int(worker["workerid"].removeprefix("gw"))
    folders = [Path(arg) for arg in config.args if "::" not in arg]
    paths = [path for folder in folders for path in sorted(folder.resolve().rglob("test_*.py"))]
    for path in paths[number :: worker["workercount"]]:
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
