"""Takes out of a report what is somebody's own: folders, names of users and of machines, keys."""

import getpass
import os
import platform
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

SHARED = ("/usr", "/lib", "/lib64", "/opt", "/etc", "/bin", "/sbin", "/proc", "/sys", "/dev")
"""Folders that are alike on all machines."""
HOME = "/~"
PATH = re.compile(r"(?<![\w/:.~])(/[^\s/:;,\"'<>|()\[\]]+)((?:/[^\s/:;,\"'<>|()\[\]]*)*)")
SECRET = re.compile(r"(?i)(token|secret|passw|credential|api_?key|auth)")
LEAST = 3  # letters of a name that is worth hiding: shorter ones are parts of words


def scrubber(
    home: str | None = None, user: str | None = None, host: str | None = None
) -> Callable[[Any], Any]:
    """A function that takes these, by default this machine's, out of a text and of all texts in a
    value of lists and mappings.
    """
    home = os.path.expanduser("~") if home is None else home
    names = {_user() if user is None else user: "(user)"}
    names[platform.node() if host is None else host] = "(machine)"
    known = {n: to for n, to in names.items() if len(n) >= LEAST and n not in ("root", "localhost")}

    def text(value: str) -> str:
        if len(home) > 1:
            value = value.replace(home, HOME)
        value = PATH.sub(_shared, value).replace(HOME, "~")
        for name, to in known.items():
            value = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", to, value)
        return value

    def scrub(value: Any) -> Any:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, (list, tuple)):
            return [scrub(one) for one in value]
        if isinstance(value, dict):
            return {text(k): _hidden(k, scrub(v)) for k, v in value.items()}
        return value

    return scrub


def _shared(found: re.Match[str]) -> str:
    """A path of our own machine keeps its last part only."""
    whole = found[0]
    if found[1] in SHARED or not found[2]:
        return whole
    return f"(folder)/{Path(whole).name}"


def _hidden(key: str, value: Any) -> Any:
    return "(hidden)" if isinstance(value, str) and value and SECRET.search(key) else value


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number that has no name
        return ""
