"""The CPU's name is replaced only by one whose instructions are all there."""

import ctypes

import pytest

from engine.backends.opencl.unknown_cpu import KNOWN, _pointers_to, known_cpu


@pytest.mark.parametrize(("name", "needed"), KNOWN, ids=[name.decode() for name, _ in KNOWN])
def test_known_cpu(name, needed):
    flags = " ".join(sorted({"sse2", *needed}))
    assert known_cpu(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t: x\n") == name
    for flag in needed:
        rest = " ".join(sorted(needed - {flag}))
        assert known_cpu(f"flags\t\t: {rest}\n") != name


def test_pointers_are_found_and_wild_ones_survived():
    text = ctypes.create_string_buffer(b"generic")
    other = ctypes.create_string_buffer(b"another")
    record = (ctypes.c_uint64 * 5)(
        0xFFFF_FFFF_FFFF_FFFF, ctypes.addressof(other), 8, ctypes.addressof(text), 1 << 46
    )
    start = ctypes.addressof(record)
    assert _pointers_to(b"generic\0", start, ctypes.sizeof(record)) == [start + 24]
