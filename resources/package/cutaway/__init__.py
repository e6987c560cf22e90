"""Cutaway, a workbench for local models.

The parts of the program are top-level packages in its repository. In a wheel, where names such as
`app` would clash with other packages, they lie in `parts` beside this file.
"""

import os
import sys
from pathlib import Path

_PARTS = Path(__file__).parent / "parts"


def _find_parts() -> None:
    """Have this process and those that it starts import the program's parts."""
    parts = str(_PARTS)
    if _PARTS.is_dir() and parts not in sys.path:
        sys.path.insert(0, parts)
        inherited = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (parts, inherited)))


_find_parts()
