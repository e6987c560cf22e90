"""The tools that need no server."""

import json
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as some

from app.documents.document import Document
from app.tools.builtin import BUILT_IN, calculated, run_built_in

NUMBER = some.integers(-999, 999).map(str) | some.floats(0.5, 512, width=16).map(repr)
SUM = some.recursive(
    NUMBER,
    lambda part: some.tuples(part, some.sampled_from(["+", "-", "*"]), part).map(
        lambda p: f"({p[0]} {p[1]} {p[2]})"
    ),
    max_leaves=20,
)


@given(SUM)
def test_as_python_calculates(text: str) -> None:
    assert float(calculated(text)) == float(eval(text))  # noqa: S307


@pytest.mark.parametrize(
    ("text", "value"),
    [("2**10", "1024"), ("7 // 2", "3"), ("7 % 4", "3"), ("1/4", "0.25"), ("-2**2", "-4"),
     ("2**0.5", repr(2**0.5)), ("2**-1", "0.5"), (" 1 + 1 ", "2")],
)  # fmt: skip
def test_values(text: str, value: str) -> None:
    assert calculated(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')", "open('/etc/passwd')", "(1).__class__", "a", "'a' * 9",
        "[1] * 9", "lambda: 1", "1 if 1 else 2", "True", "1j", "9**9**9", "10**10000",
        "(10**1000)**10", "1" * 2000, "(" * 500 + "1" + ")" * 500, "1+" * 400 + "1", "", "1;2",
        "1/0", "1e308*10", "(-8)**0.5", "2.0**99999", "x:=1", "1 << 9", "~1",
    ],
)  # fmt: skip
def test_refused(text: str) -> None:
    made = run_built_in(BUILT_IN["calculator"], json.dumps({"expression": text}), [])
    assert made.failed
    assert made.text.startswith("error: ")


@pytest.mark.parametrize("value", [7, None, ["1"], {"a": 1}])
def test_other_types(value: object) -> None:
    arguments = json.dumps({"expression": value})
    assert run_built_in(BUILT_IN["calculator"], arguments, []).failed


def test_the_time() -> None:
    before = datetime.now().astimezone().replace(microsecond=0)
    made = datetime.fromisoformat(run_built_in(BUILT_IN["current_time"], "{}", []).text)
    assert before <= made <= datetime.now().astimezone()


def test_documents() -> None:
    tool = BUILT_IN["read_attachment"]
    lines = "\n".join(f"line {n}" for n in range(1, 501))
    documents = [Document("a.txt", "text", lines, 9), Document("b.pdf", "pdf", "one\ftwo", 9)]

    def read(**arguments: object) -> str:
        return run_built_in(tool, json.dumps(arguments), documents).text

    assert read() == "a.txt (500 lines)\nb.pdf (2 pages)"
    assert read(name="b.pdf", **{"from": 2}) == "b.pdf, pages 2 to 2 of 2:\ntwo"
    assert read(name="a.txt", **{"from": 3, "to": 4}).endswith(":\nline 3\nline 4")
    assert read(name="a.txt").splitlines()[-1] == "line 200"
    assert "has the lines 1 to 500" in read(name="a.txt", **{"from": 501})
    assert "no document '../../etc/passwd'; documents: a.txt, b.pdf" in read(
        name="../../etc/passwd"
    )
    assert "expected" in read(name="a.txt", **{"from": "x"}) or "invalid" in read(
        name="a.txt", **{"from": "x"}
    )
    assert run_built_in(tool, "{}", []).text == "error: this chat has no documents"
