"""What was freed is given back."""

import numpy as np
import psutil
import pytest

from engine.memory.trim import keep_little, trim

MIB = 1 << 20


@pytest.mark.only_linux("a call of its C library")
def test_what_was_freed_goes_back() -> None:
    keep_little()
    process = psutil.Process()
    trim()
    before = process.memory_info().rss
    small = [np.ones(50_000, np.uint8) for _ in range(2000)]
    large = np.ones(40 * MIB, np.uint8)
    held = process.memory_info().rss
    assert held - before > 120 * MIB
    last = small[-1]  # keeps the end of the heap where it is
    del small, large
    trim()
    assert process.memory_info().rss - before < 10 * MIB
    assert last.all()
