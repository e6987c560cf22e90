"""Errors of the engine and of downloads, in the language of the window.

They are raised in English, most of them in another process. The usual ones are found again by
their texts here; the rest stays as it is.
"""

import re
from functools import cache

from app.language import decimal, mark, tr, used

LONGEST = 1000
"""Characters of a text that is looked at."""
TEXTS = (
    # Memory
    mark("{device}: no room for {component}: {wanted} MiB wanted, {left} MiB left; {detail}"),
    mark("{device}: no room for {component}: {wanted} MiB wanted, {left} MiB left"),
    mark("{component} of layer {layer}"),
    mark("{n} layers"),
    mark("what is not on GPUs"),
    mark("unable to load full model on GPU"),
    mark("model requires more system memory than is available"),
    mark("the driver ran out while {doing}"),
    mark("{wanted} tokens do not fit the context of {capacity}; {detail}"),
    mark("shorten the prompt or raise --ctx"),
    # Files
    mark("no such file"),
    mark("no such file or directory"),
    mark("No such file or directory"),
    mark("permission denied"),
    mark("Permission denied"),
    mark("No space left on device"),
    mark("cannot allocate memory"),
    mark("not a file"),
    mark("the file is empty"),
    mark("is a folder; name one of its files"),
    mark("this isn't a GGUF file"),
    mark(
        "ends inside {part}: {size} bytes wanted at {start}, {left} left; the file is cut off or"
        " damaged"
    ),
    mark("claims {n} {parts}, but {left} bytes are left; the file is damaged"),
    mark(
        "incomplete: {size} of {end} bytes are there, cut off: {n} tensors (first: {name});"
        " download it again"
    ),
    mark("GGUF version 1 is not read; convert the model again (versions 2 and 3)"),
    mark("GGUF version {version} is not supported; supported are 2 and 3"),
    mark("{missing} of {count} parts are not in the same folder: {names}"),
    mark("the parts hold {n} tensors, but the header lists {expected}; download them again"),
    mark("metadata has no {key}; expected {expected}"),
    mark("{path} cannot be written: {why}"),
    mark("there is no such folder"),
    mark("not a file, and not in {folders} or other programs' folders; {hint}"),
    mark("{what} {name} is not supported; supported: {supported}"),
    # The engine's process and its devices
    mark("the engine stopped: {why}"),
    mark("it closed its pipe but is still running"),
    mark("it did not respond and was ended"),
    mark("it could not be started: {why}"),
    mark("{why}; last words: {words}"),
    mark("it was killed (signal 9), most often because memory ran out"),
    mark("the model file shrank or became unreadable while in use (SIGBUS)"),
    mark("it crashed (SIGSEGV), most often inside a device driver"),
    mark("it was aborted (SIGABRT), most often by a device driver"),
    mark("exit code {code}"),
    mark("there is no such device; there are {names} and host"),
    mark("no OpenCL driver works here; {install}, or see `cutaway doctor`"),
    mark("cannot be opened: {why}; see `cutaway doctor`"),
    mark("{work} was cancelled"),
    mark("loading"),
    # Downloads
    mark(
        "the connection for {file} of {host} broke at {size} MiB ({why}); check the network and"
        " try again: the download resumes"
    ),
    mark(
        "{host} cannot be reached ({why}); check the network and the proxy. Models on this disk"
        " can be used without it"
    ),
    mark("HF_HUB_OFFLINE is set, so searching is off; unset it"),
    mark("{host}: {why}; check the network, the proxy and HF_ENDPOINT"),
    mark("{host} has no such repository, or it is private; check the name, or set HF_TOKEN"),
    mark("{host} has no repository {repo}, or it is private; check the name"),
    mark("{repo} has no such file any more; search again"),
    mark("{repo} is gated: open {page} and accept its terms, then try again"),
    mark("{host} refuses the token ({status}); check HF_TOKEN, or log in again"),
    mark("{host} limits the rate of requests; try again in {seconds} s"),
    mark("{file}: the server answered {status}"),
    mark(
        "{file} has sha256 {found} instead of {wanted}; it was deleted; try again, or another"
        " server"
    ),
    mark("{file} has {size} bytes, {wanted} expected; try again later, or another server"),
    mark("the disk of {folder} is full; make room and try again, it resumes"),
    mark("cannot write to {folder}: {why}"),
    mark(
        "needs {wanted} MiB in {folder}, where {free} MiB are free; make room or choose another"
        " disk"
    ),
    mark("{name}: stopped; `cutaway get {command}` resumes it"),
)
_FIELD = re.compile(r"\{(\w+)\}")
_NUMBER = re.compile(r"\d+\.\d+")


def in_language(text: str) -> str:
    """An error's text in the language in use, behind the name of what it is about."""
    if used() == "en" or len(text) > LONGEST:
        return text
    starts = [0, *(found.end() for found in re.finditer(": ", text))]
    for start in starts:
        if (found := _translated(text[start:])) is not None:
            return text[:start] + found
    return text


def _translated(text: str) -> str | None:
    """None for a text that is none of `TEXTS`."""
    for english, pattern in _patterns():
        if found := pattern.fullmatch(text):
            return tr(english, **{name: _value(part) for name, part in found.groupdict().items()})
    return None


def _value(text: str) -> str:
    """A part of an error, which may be one itself; a number as it is written in the language."""
    return decimal(text) if _NUMBER.fullmatch(text) else _translated(text) or text


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    """`TEXTS`, each with an expression in which its fields are groups."""
    found = []
    for text in TEXTS:
        words = _FIELD.split(text)
        for at, name in enumerate(words):
            field = rf"(?P<{name}>\d+)" if name == "n" else f"(?P<{name}>.+?)"
            words[at] = field if at % 2 else re.escape(name)
        found.append((text, re.compile("".join(words), re.DOTALL)))
    return found
