"""Where built kernels are kept between runs: by us, through pyopencl, and by drivers themselves."""

import os
import tempfile
from functools import cache
from pathlib import Path

from engine.settings import cache_folder


@cache
def kept_folder(name: str, root: Path | None = None) -> Path:
    """A folder under the cache that can be written, or one that lasts as long as the process.

    PoCL shows no device at all where it cannot write its cache.
    """
    folder = (root or cache_folder()) / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    except OSError:  # read-only, full, or no home at all
        pass
    return Path(_temporary().name)


@cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="cutaway-cache-")
