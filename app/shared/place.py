"""Where a program that shares its engine is found: a socket and a lock, in a folder of one user."""

import os
import socket
import stat
import struct
import warnings
from pathlib import Path

import platformdirs

from engine.errors import BadSetting
from engine.system import user

SOCKET, LOCK = "engine.sock", "engine.lock"
_CREDENTIALS = struct.Struct("3i")  # of SO_PEERCRED: process, user, group


def folder() -> Path:
    """The folder that both sides look in; it may not exist."""
    with warnings.catch_warnings():  # of a session without such a folder; it takes another then
        warnings.simplefilter("ignore")
        return Path(platformdirs.user_runtime_dir("cutaway", appauthor=False))


def made_folder(path: Path) -> Path:
    """The folder, made where it is missing. Raises `BadSetting` where others may enter it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        what = f"a folder that can be created ({error.strerror})"
        raise BadSetting("XDG_RUNTIME_DIR", str(path), what) from None
    if not is_private(found):
        raise BadSetting(
            "XDG_RUNTIME_DIR", str(path), "a folder that belongs to you and only you can enter"
        )
    return path


def is_private(found: os.stat_result) -> bool:
    """Return whether it is a folder of this user, closed to all others."""
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == user()
    return is_ours and not stat.S_IMODE(found.st_mode) & 0o077


def is_same_user(connection: socket.socket) -> bool:
    """Return whether the peer is a process of this user. Where the system does not report, the
    folder's permissions are all that keeps others out.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, peer, _ = _CREDENTIALS.unpack(data)
    return bool(peer == user())
