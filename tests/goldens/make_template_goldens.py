"""Writes chat_templates.json.xz: llama.cpp's chat templates and the prompts its test expects.

    python tests/goldens/make_template_goldens.py LLAMA_CPP_SOURCE

LLAMA_CPP_SOURCE is the unpacked source of llama.cpp (MIT licence; it lies in the source
distribution of llama-cpp-python under vendor/llama.cpp). Read are models/templates/*.jinja, which
come from the models they are named after, and the table in tests/test-chat-template.cpp.
"""

import json
import lzma
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FIELDS = ("name", "template", "builtin", "expected", "bos", "eos", "jinja", "extra")
DEFAULTS = (None, None, None, "", "", "", True, [])
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class Literals:
    """Reads braced lists of C++ literals: strings, true, false."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def value(self) -> Any:
        self._skip()
        if self._take("U8C("):
            value = self.value()
            self._skip()
            assert self._take(")")
            return value
        if self._take("{"):
            return self._list()
        if self.text[self.at] == '"':
            return self._string()
        word = re.compile(r"true|false").match(self.text, self.at)
        assert word, self.text[self.at : self.at + 40]
        self.at = word.end()
        return word[0] == "true"

    def _list(self) -> list[Any]:
        values = []
        self._skip()
        while not self._take("}"):
            values.append(self.value())
            self._skip()
            self._take(",")
            self._skip()
        return values

    def _string(self) -> str:
        parts = []
        literal = re.compile(r'"((?:[^"\\]|\\.)*)"', re.S)
        while match := literal.match(self.text, self.at):
            parts.append(match[1])
            self.at = match.end()
            self._skip()
        return re.sub(r"\\(u\w{4}|.)", self._escape, "".join(parts), flags=re.S)

    @staticmethod
    def _escape(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else ESCAPES.get(code, code)

    def _skip(self) -> None:
        space = re.compile(r"(\s+|//[^\n]*|/\*.*?\*/)*", re.S).match(self.text, self.at)
        assert space
        self.at = space.end()

    def _take(self, word: str) -> bool:
        found = self.text.startswith(word, self.at)
        self.at += len(word) * found
        return found


def after(source: str, mark: str) -> Any:
    start = source.index("{", source.index(mark) + len(mark) - 1)
    return Literals(source[start:]).value()


def main() -> None:
    root = Path(sys.argv[1])
    source = (root / "tests/test-chat-template.cpp").read_text(encoding="utf-8")
    messages = [{"role": r, "content": c} for r, c in after(source, "conversation {")]
    cases = []
    for row in after(source, "test_cases {"):
        case = dict(zip(FIELDS, (*row, *DEFAULTS[len(row) :]), strict=True))
        extra = [{"role": r, "content": c} for r, c in case.pop("extra")]
        builtin = case.pop("builtin")
        if case.pop("jinja"):  # the others need variables that no caller gives
            expected = case["expected"] or builtin
            cases.append({**case, "expected": expected, "messages": messages + extra})
    blobs = re.findall(r'DEFAULT_JSON\w* = R"\((.*?)\)"', source, re.S)
    files = sorted((root / "models/templates").glob("*.jinja"))
    goldens = {
        "cases": cases,
        "inputs": [json.loads(blob) for blob in blobs],
        "templates": {path.stem: path.read_bytes().decode() for path in files},
    }
    data = json.dumps(goldens, separators=(",", ":")).encode()
    (HERE / "chat_templates.json.xz").write_bytes(lzma.compress(data, preset=9))
    print(len(cases), "cases,", len(files), "templates")


if __name__ == "__main__":
    main()
