"""Calls while they are written: what of a call's arguments is there, before the call is whole."""

import re
from dataclasses import dataclass

_NAME = r"(?P<name>[\w.\-/:]{1,256})"
_BETWEEN = r"[\s,\[\]}]*"
_KEYS = (
    r'"(?:name|tool_name|function)"\s*:\s*"' + _NAME + r'"\s*,\s*"(?:arguments|parameters)"\s*:\s*'
)
_ID = r'"(?:id|tool_call_id)"\s*:\s*"(?P<id>[^"\\]*)"\s*,\s*'
OBJECTS = re.compile(_BETWEEN + r"\{\s*(?:" + _ID + ")?" + _KEYS + r"(?=\{)")
"""What stands before the arguments of JSON objects, one or a list."""
MISTRAL = re.compile(
    OBJECTS.pattern
    + r"|\s*(?P<bare>[\w.\-/:]{1,256})(?:\[CALL_ID\](?P<number>\w+))?(?:\[ARGS\])?(?=\{)"
)
KIMI = re.compile(
    r"\s*(?:<\|tool_call_end\|>\s*)?<\|tool_call_begin\|>\s*"
    r"(?P<id>functions\.(?P<name>[\w.\-/]{1,256}):\d+)\s*<\|tool_call_argument_begin\|>\s*(?=\{)"
)
_BAR = "\uff5ctool\u2581"
DEEPSEEK = re.compile(
    rf"\s*(?:```\s*)?(?:<{_BAR}call\u2581end\uff5c>\s*)?<{_BAR}call\u2581begin\uff5c>"
    rf"(?:function<{_BAR}sep\uff5c>{_NAME}\n```(?:json)?\n|(?P<bare>[\w.\-/:]{{1,256}})<{_BAR}sep\uff5c>)"
    r"(?=\{)"
)
LONGEST_HEAD = 1 << 12
"""Characters behind which no more calls are looked for."""


@dataclass(frozen=True)
class WrittenCall:
    """More of a body's call number `index`, from 0: the first has its name, and its id if one is
    written before it.
    """

    index: int
    name: str = ""
    id: str = ""
    arguments: str = ""


class CallStream:
    """Follows the calls of one body, if it has a `head`, which matches what stands before the
    arguments of a call, or is nothing but arguments, and `named` outside.
    """

    def __init__(self, head: "re.Pattern[str] | None", named: str = "") -> None:
        self._head, self._named = head, named
        self.follows = head is not None or named != ""
        self._text = ""  # not read yet
        self._depth = 0
        self._in_text = self._escaped = False
        self.n_begun = self.n_whole = 0

    @property
    def n_unread(self) -> int:
        """Characters behind the arguments so far."""
        return len(self._text)

    def push(self, text: str) -> list[WrittenCall]:
        """Add `text` and return the parts of calls that are now certain."""
        if not self.follows:
            return []
        self._text += text
        found: list[WrittenCall] = []
        while self._text:
            if not self._depth:
                begun = self._begun()
                if begun is None:
                    self.follows = len(self._text) <= LONGEST_HEAD
                    break
                found.append(begun)
            taken = self._taken()
            found.append(WrittenCall(self.n_begun - 1, arguments=taken))
        return found

    def _begun(self) -> WrittenCall | None:
        name, number, end = self._named, "", 0
        if name:
            end = len(self._text) - len(self._text.lstrip())
            if self.n_begun or self._text[end : end + 1] != "{":
                return None
        else:
            match = self._head.match(self._text) if self._head else None
            if match is None:
                return None
            groups = match.groupdict()
            name = groups.get("name") or groups.get("bare") or ""
            number = groups.get("id") or groups.get("number") or ""
            end = match.end()
        self._text = self._text[end:]
        self.n_begun += 1
        return WrittenCall(self.n_begun - 1, name, number)

    def _taken(self) -> str:
        """The arguments up to their end, or all there is."""
        for at, character in enumerate(self._text):
            if self._in_text:
                if self._escaped:
                    self._escaped = False
                elif character == "\\":
                    self._escaped = True
                elif character == '"':
                    self._in_text = False
            elif character == '"':
                self._in_text = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if not self._depth:
                    self.n_whole += 1
                    return self._cut(at + 1)
        return self._cut(len(self._text))

    def _cut(self, at: int) -> str:
        taken, self._text = self._text[:at], self._text[at:]
        return taken
