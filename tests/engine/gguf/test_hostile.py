"""Files that are broken or lie: each opens or gives one line, with little work and 300 MiB.

How much work may grow with what is in the file, never with what it claims.
"""

import os
import random
import struct
from contextlib import contextmanager

import pytest

from engine.errors import BadFile
from engine.gguf import open_gguf
from engine.gguf.formats import FORMATS
from engine.gguf.summary import summarize
from engine.gguf.values import ValueType as V
from tests.bounds import at_most_lines, times_as_long
from tests.gguf_files import Blocks, Draft, string

MIB = 1 << 20
LINES = 20_000  # of Python, for a small file; one that opens takes a third of them
TYPES = [V.UINT8, V.INT16, V.UINT32, V.FLOAT32, V.UINT64, V.FLOAT64]


@contextmanager
def memory_limit(mib=300):
    """No more address space than now and `mib`, so that an allocation beyond it fails at once."""
    resource = pytest.importorskip("resource")
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("no /proc to read the process's size from")
    with open("/proc/self/statm") as statm:
        now = int(statm.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + mib * MIB, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def read_all(path):
    with open_gguf(path) as file:
        summarize(file)
        for name in file.tensors:
            file.data(name).sum()


def refused(path):
    """The message of the error that opening `path` gives."""
    with memory_limit(), pytest.raises(BadFile) as caught, at_most_lines(LINES):
        read_all(path)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 600 + len(str(path))
    return message.removeprefix(f"{path}: ")


def small():
    """A file with every type of value, some formats, and little else."""
    pairs = {
        "general.architecture": (V.STRING, "toy"),
        "general.alignment": (V.UINT32, 32),
        "toy.yes": (V.BOOL, True),
        "toy.words": (V.ARRAY, (V.STRING, [f"word {i}" for i in range(40)])),
        "toy.nested": (V.ARRAY, (V.ARRAY, [(V.INT8, [1, 2, 3]), (V.STRING, ["a", "b"])])),
    }
    for t in TYPES:
        pairs[f"toy.{t}"] = (t, 1)
        pairs[f"toy.{t}s"] = (V.ARRAY, (t, list(range(9))))
    tensors = {}
    for fmt in (FORMATS[i] for i in (0, 1, 2, 12, 14, 24, 39)):
        data = random.Random(fmt.id).randbytes(3 * fmt.bytes * 2)
        tensors[f"t.{fmt}"] = Blocks(fmt.id, (fmt.block * 2, 3), data)
    return Draft(pairs, tensors)


def tensor(type_id=0, dims=(4, 2), data=bytes(32)):
    return Blocks(type_id, dims, data)


def test_truncations_and_flips(tmp_path):
    draft = small()
    whole = b"".join(draft.encoded())
    n_header = len(draft.header())
    rng = random.Random(2)
    path = tmp_path / "broken.gguf"
    opened, messages = 0, []
    with memory_limit():
        for i in range(1000):
            raw = bytearray(whole)
            if i % 2:
                del raw[rng.randrange(len(raw)) :]
            else:
                for _ in range(rng.randint(1, 4)):
                    value = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
                    raw[rng.randrange(n_header)] = value
            path.write_bytes(raw)
            try:
                with at_most_lines(LINES):
                    read_all(path)
                opened += 1
            except BadFile as error:
                messages.append(str(error))
    assert not any("\n" in message for message in messages)
    assert 50 < opened < 500  # some flips only change a value; no truncation opens


def test_a_header_cut_anywhere(tmp_path):
    draft = small()
    whole = b"".join(draft.encoded())
    path = tmp_path / "cut.gguf"
    for size in range(0, len(draft.header()), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(BadFile):
            open_gguf(path)


def test_a_cut_in_the_last_tensor(tmp_path):
    path = tmp_path / "cut.gguf"
    draft = Draft(tensors={"a": tensor(), "b": tensor()})
    whole = b"".join(draft.encoded())
    path.write_bytes(whole[:-1])
    assert "incomplete: 191 of 192 bytes are there, cut off: 1 tensors (first: 'b'" in refused(path)


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 2**40, 2**17 + 1])
def test_counts(tmp_path, number):
    path = tmp_path / "x.gguf"
    lie = Draft(tensors={"t": tensor()}, claimed_tensors=number).write(path)
    assert refused(lie).startswith(f"claims {number} tensors, but")
    lie = Draft({"a": (V.UINT8, 1)}, claimed_pairs=number).write(path)
    assert refused(lie).startswith(f"claims {number} metadata pairs, but")


def header(*rest, pairs=1, tensors=0):
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, pairs) + b"".join(rest)


def u32(n):
    return struct.pack("<I", n)


def u64(n):
    return struct.pack("<Q", n)


KEY = string("k", "<")
NAME = string("t", "<")
LONG = [2**40, 2**63, 2**64 - 1, 2**64 - 8]


@pytest.mark.parametrize("length", LONG)
@pytest.mark.parametrize(
    "before",
    [
        header(),
        header(KEY, u32(V.STRING)),
        header(KEY, u32(V.ARRAY), u32(V.UINT8)),
        header(KEY, u32(V.ARRAY), u32(V.FLOAT64)),
        header(KEY, u32(V.ARRAY), u32(V.STRING)),
        header(KEY, u32(V.ARRAY), u32(V.STRING), u64(2), u64(1), b"a"),
        header(KEY, u32(V.ARRAY), u32(V.ARRAY)),
        header(KEY, u32(V.ARRAY), u32(V.ARRAY), u64(1), u32(V.UINT8)),
        header(pairs=0, tensors=1),
    ],
    ids=["key", "string", "bytes", "doubles", "strings", "item", "arrays", "inner", "name"],
)
def test_lengths(tmp_path, before, length):
    path = tmp_path / "x.gguf"
    path.write_bytes(before + u64(length) + bytes(100))
    assert "the file is" in refused(path)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "the file is empty"),
        (b"GG", "ends inside the magic number"),
        (b"GGML" + bytes(30), "this isn't a GGUF file"),
        (b"GGUF" + u32(1) + bytes(30), "GGUF version 1 is not read"),
        (b"GGUF" + u32(0) + bytes(30), "GGUF version 0 is not supported"),
        (b"GGUF" + u32(4) + bytes(30), "GGUF version 4 is not supported"),
        (b"GGUF" + struct.pack(">I", 9) + bytes(30), "GGUF version 9 is not supported"),
        (header(string(b"\xff\xfe", "<"), bytes(20)), "the name of a metadata key is not UTF-8"),
        (header(string(b"a" * 65536, "<"), bytes(20)), "of a metadata key has 65536 bytes"),
        (header(KEY, u32(13), bytes(20)), "metadata 'k' has the unknown type 13"),
        (header(KEY, u32(V.ARRAY), u32(77), u64(1), bytes(20)), "'k' has the unknown type 77"),
        (
            header(KEY, u32(V.ARRAY), (u32(V.ARRAY) + u64(1)) * 5, bytes(20)),
            "nests arrays deeper than 4",
        ),
        (header((KEY + u32(V.UINT8) + b"1") * 2, pairs=2), "metadata has the key 'k' twice"),
        (header(string(b"\xff", "<"), bytes(30), pairs=0, tensors=1), "of a tensor is not UTF-8"),
        (header(NAME, u32(5), bytes(60), pairs=0, tensors=1), "'t' has 5 dimensions; at most 4"),
        (header(NAME, u32(2**32 - 1), bytes(60), pairs=0, tensors=1), "4294967295 dimensions"),
    ],
)
def test_hand_made_headers(tmp_path, raw, message):
    path = tmp_path / "x.gguf"
    path.write_bytes(raw)
    assert message in refused(path)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (tensor(dims=(0, 4)), "impossible shape [0, 4]"),
        (tensor(dims=(4, 2**63)), "impossible shape"),
        (tensor(dims=(2**32, 2**31)), "impossible shape"),
        (tensor(dims=(2**62, 1)), "incomplete: "),
        (tensor(dims=(2**16, 2**15, 2**16, 2**15)), "incomplete: "),
        (tensor(2, (33,)), "'t': rows of 33 are not whole blocks of 32 (Q4_0)"),
        (tensor(14, (128, 2)), "rows of 128 are not whole blocks of 256 (Q6_K)"),
        (tensor(99), "unknown tensor type 99 ('t')"),
        (tensor(4), "unknown tensor type 4 ('t')"),
        (tensor(2**32 - 1), "unknown tensor type 4294967295"),
        (tensor(9), "tensor type Q8_1 ('t') cannot be read; convert the model"),
        (tensor(15), "tensor type Q8_K ('t') cannot be read"),
        (tensor(41), "tensor type Q1_0 ('t') cannot be read"),
    ],
)
def test_impossible_tensors(tmp_path, blocks, message):
    draft = Draft(tensors={"t": blocks})
    assert message in refused(draft.write(tmp_path / "x.gguf"))


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (1, "'b': offset 1 is not a multiple of 32"),
        (0, "tensors 'a' and 'b' overlap"),
        (32, "tensors 'a' and 'b' overlap"),
        (2**40, "of 10995116"),
        (2**64 - 32, "(first: 'b')"),
    ],
)
def test_impossible_places(tmp_path, offset, message):
    big = tensor(dims=(16, 2), data=bytes(128))
    draft = Draft(tensors={"a": big, "b": tensor()}, offsets={"b": offset})
    assert message in refused(draft.write(tmp_path / "x.gguf"))


@pytest.mark.parametrize("alignment", [0, 3, 48])
def test_alignment_is_a_power_of_two(tmp_path, alignment):
    draft = Draft({"general.alignment": (V.UINT32, alignment)}, {"t": tensor()})
    message = refused(draft.write(tmp_path / "x.gguf"))
    assert message == f"'general.alignment' is {alignment}; expected a power of two"


def test_alignment_is_a_number(tmp_path):
    draft = Draft({"general.alignment": (V.STRING, "32")})
    assert "'general.alignment' is string" in refused(draft.write(tmp_path / "x.gguf"))


def test_a_tensor_twice(tmp_path):
    draft = Draft(tensors={"t": tensor(), "u": tensor()})
    path = tmp_path / "x.gguf"
    path.write_bytes(b"".join(draft.encoded()).replace(string("u", "<"), string("t", "<")))
    assert refused(path) == "has the tensor 't' twice"


def test_unknown_types_name_the_tensors(tmp_path):
    draft = Draft(tensors={f"t{i}": tensor(50 + i % 2) for i in range(9)})
    message = refused(draft.write(tmp_path / "x.gguf"))
    assert "type 50 ('t0', 't2', 't4', ...); 51 ('t1', 't3', 't5', ...)" in message


def test_names_cannot_break_the_line(tmp_path):
    draft = Draft(tensors={"a\nb\x1b[2J": tensor(99)})
    assert r"'a\nb\x1b[2J'" in refused(draft.write(tmp_path / "x.gguf"))


def opens(path, raw, steps):
    """Opens it with at most `steps` times the work of a plain walk over its words of 8 bytes."""
    path.write_bytes(raw)
    found = 0

    def walk():
        unpack = struct.Struct("<Q").unpack_from
        for at in range(0, len(raw) - 7, 8):
            unpack(raw, at)

    def work():
        nonlocal found
        with open_gguf(path) as file:
            found = len(file.tensors)

    with memory_limit():
        assert times_as_long(work, walk, tries=1) < steps
    return found


def test_the_most_strings(tmp_path):
    """The most work a header can ask for, in a file that is as large as it says."""
    most = 1 << 23
    start = header(KEY, u32(V.ARRAY), u32(V.STRING))
    path = tmp_path / "x.gguf"
    opens(path, start + u64(most) + bytes(8 * most), steps=5)
    path.write_bytes(start + u64(most + 1) + bytes(8 * most + 8))
    assert f"claims {most + 1} elements in metadata 'k', but at most {most}" in refused(path)


def test_the_most_arrays(tmp_path):
    most = 1 << 16
    start = header(KEY, u32(V.ARRAY), u32(V.ARRAY))
    path = tmp_path / "x.gguf"
    opens(path, start + u64(most) + bytes(12 * most), steps=400)
    path.write_bytes(start + u64(most + 1) + bytes(12 * most + 12))
    assert f"claims {most + 1} elements in metadata 'k', but at most {most}" in refused(path)


def test_the_most_tensors(tmp_path):
    most = 1 << 17
    infos = (string(f"{i:06}", "<") + struct.pack("<IIQ", 0, 0, 32 * i) for i in range(most))
    raw = header(*infos, pairs=0, tensors=most) + bytes(32 * most + 32)
    assert opens(tmp_path / "x.gguf", raw, steps=100) == most


def test_the_most_pairs(tmp_path):
    most = 1 << 16
    pairs = (string(f"{i:06}", "<") + u32(V.UINT8) + b"1" for i in range(most))
    assert opens(tmp_path / "x.gguf", header(*pairs, pairs=most), steps=100) == 0


def test_what_is_no_file(tmp_path):
    assert refused(tmp_path) == "not a file"
    assert refused(tmp_path / "nothing.gguf") == "no such file or directory"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert refused(pipe) == "not a file"
    assert "NUL character" in refused(tmp_path / "a\0b.gguf")
    loop = tmp_path / "loop.gguf"
    loop.symlink_to(loop)
    assert "too many levels" in refused(loop)
