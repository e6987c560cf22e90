"""The CPU's name is replaced only by one whose instructions are all there."""

import ctypes

import pytest

from engine.backends.opencl.drivers.unknown_cpu import KNOWN, known_cpu, pointers_to


@pytest.mark.parametrize(("name", "needed"), KNOWN, ids=[name.decode() for name, _ in KNOWN])
def test_known_cpu(name, needed):
    flags = " ".join(sorted({"sse2", *needed}))
    assert known_cpu(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t: x\n") == name
    for flag in needed:
        rest = " ".join(sorted(needed - {flag}))
        assert known_cpu(f"flags\t\t: {rest}\n") != name


def test_known_cpu_of_narrower_vectors():
    flags = " ".join(sorted(set.union(*(needed for _, needed in KNOWN))))
    names = {ints: known_cpu(f"flags\t\t: {flags}\n", ints) for ints in (16, 8, 4)}
    assert names == {16: b"cascadelake", 8: b"haswell", 4: b"nehalem"}


@pytest.mark.only_linux("PoCL's wheel")
def test_pointers_are_found_and_wild_ones_survived():
    text = ctypes.create_string_buffer(b"generic")
    other = ctypes.create_string_buffer(b"another")
    record = (ctypes.c_uint64 * 5)(
        0xFFFF_FFFF_FFFF_FFFF, ctypes.addressof(other), 8, ctypes.addressof(text), 1 << 46
    )
    start = ctypes.addressof(record)
    assert pointers_to(b"generic\0", start, ctypes.sizeof(record)) == [start + 24]
