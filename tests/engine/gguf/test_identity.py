"""A file's identity: other bytes in the same place are another file, whatever its times say."""

import os
from pathlib import Path

from engine.gguf.splits import FileIdentity


def test_bytes_that_change_with_their_times_set_back(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    before = FileIdentity.of(path, path.stat())
    assert before.is_there
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    with path.open("r+b") as file:
        file.seek(50)
        file.write(b"\1")
    os.utime(path, ns=times)
    after = FileIdentity.of(path, path.stat())
    assert (after.inode, after.size, after.written) == (before.inode, before.size, before.written)
    assert after != before
    assert not before.is_there
