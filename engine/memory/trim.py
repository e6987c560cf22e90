"""Freed memory back to the system: C libraries keep what was freed for the next allocation."""

import ctypes
import gc
import sys
from typing import Any

# Of malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGE = 8 << 20
"""Bytes from which a piece goes back when it is freed."""


def keep_little() -> None:
    """From now on large pieces go back at once, in drivers' threads too, where glibc is used.

    Left alone it keeps larger ones the larger they come, for each thread.
    """
    set_option = _c_library("mallopt")
    if set_option is not None:
        set_option(M_MMAP_THRESHOLD, LARGE)
        set_option(M_TRIM_THRESHOLD, 2 * LARGE)


def trim() -> None:
    """Collect garbage, and hand back free pages where the C library (glibc) can."""
    gc.collect()
    give_back = _c_library("malloc_trim")
    if give_back is not None:
        give_back(0)


def _c_library(function: str) -> Any:
    return getattr(ctypes.CDLL(None), function, None) if sys.platform == "linux" else None
