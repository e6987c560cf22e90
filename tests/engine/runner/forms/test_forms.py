"""Answers of a form: always of it, whatever the model would say; what is refused; who waits."""

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from engine.errors import CutawayError
from engine.protocol import (
    AnswerForm,
    Finished,
    Generate,
    Grammar,
    JsonObject,
    JsonSchema,
    Piece,
    Progress,
    Regex,
    Reply,
    Sampling,
)
from engine.runner.api import Model, load
from engine.runner.forms import guide
from engine.runner.generate import generate
from engine.runner.sequence import Sequenced
from engine.sampling import constraint
from engine.sampling.constraint import BadForm, Constraint, FormFailed, FormWords

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
        "at": {"type": "string", "format": "date"},
    },
    "required": ["name", "age", "tags", "at"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def model(tiny_path: Path) -> Iterator[Model]:
    with load(tiny_path, device="host", ctx=512) as model:
        yield model


def events(model: Model, form: AnswerForm | None, **changes: Any) -> Iterator[Reply]:
    sampling = Sampling(temperature=1.5, top_k=0, top_p=1, min_p=0, seed=changes.pop("seed", 1))
    given = {"prompt": "abcd", "sampling": sampling, "max_tokens": 400, "form": form, **changes}
    sequence = Sequenced(model.loaded.stepper)
    return generate(model.loaded, sequence, Generate(1, **given), changes.pop("stop_now", never))


def never() -> bool:
    return False


def said(model: Model, form: AnswerForm | None, **changes: Any) -> tuple[str, str]:
    """The answer, and why it ended."""
    heard = list(events(model, form, **changes))
    assert isinstance(heard[-1], Finished)
    return "".join(e.text for e in heard if isinstance(e, Piece)), heard[-1].reason


@pytest.mark.parametrize("seed", range(4))
def test_json_by_a_schema(model: Model, seed: int) -> None:
    text, reason = said(model, JsonSchema(json.dumps(PERSON)), seed=seed)
    assert reason == "stop"
    jsonschema.validate(json.loads(text), PERSON, format_checker=jsonschema.FormatChecker())


def test_any_object_is_one_or_is_cut(model: Model) -> None:
    text, reason = said(model, JsonObject(), seed=3)
    assert text.startswith("{")
    if reason == "stop":
        assert isinstance(json.loads(text), dict)
    else:
        assert reason == "length"


def test_an_expression_and_grammars(model: Model) -> None:
    assert re.fullmatch(r"[a-c]{3}-\d{2}", said(model, Regex(r"[a-c]{3}-[0-9]{2}"))[0])
    lark = Grammar('start: "yes" | "no" " "? "never"')
    assert said(model, lark)[0] in ("yes", "nonever", "no never")
    gbnf = Grammar('root ::= "<" item ("," item)* ">"\nitem ::= [a-z] [0-9]', "gbnf")
    assert re.fullmatch(r"<[a-z]\d(,[a-z]\d)*>", said(model, gbnf)[0])


def is_whole(model: Model, form: AnswerForm, text: str) -> bool:
    """Whether a text fits a form, and may end."""
    held = Constraint(model.loaded.form_words, constraint.grammar_of(form))
    tokenizer = model.loaded.tokenizer
    if not held.take_text(tokenizer.encode(text, add_special=False, continues=True)):
        return False
    masked = held.masked(np.zeros(tokenizer.size, np.float32))
    return any(masked[token] == 0 for token in tokenizer.eog) or held.is_over


def test_repetitions_of_repetitions(model: Model) -> None:
    """Valid GBNF, whose parentheses mean something."""
    star = Grammar('root ::= (("a")*)* "z"', "gbnf")
    assert [is_whole(model, star, text) for text in ("z", "aaz", "a")] == [True, True, False]
    counted = Grammar('root ::= ("a"{2,3}){2}', "gbnf")
    assert [is_whole(model, counted, "a" * n) for n in (3, 4, 6)] == [False, True, True]
    assert not is_whole(model, counted, "a" * 7)
    inner = Grammar('root ::= (("x" "y")? | "w"+)* "."', "gbnf")
    assert is_whole(model, inner, "xywwxy.")


@pytest.mark.parametrize(
    "text",
    ['root ::= "a" root | "b"', 'root ::= ("a" root)?', 'root ::= x*\nx ::= "q" x', 'root ::= ""'],
)
def test_a_grammar_of_which_one_way_ends_is_taken(text: str) -> None:
    assert constraint.problem_of(Grammar(text, "gbnf")) == ""


def test_white_space_in_json_is_bounded_as_llama_cpp_does(model: Model) -> None:
    form = JsonSchema('{"properties": {"a": {"type": "null"}}, "required": ["a"]}')
    fits = [f'{{{space}"a":null}}' for space in ("", " ", "\n", "\n\n" + " " * 20, "\n\t")]
    assert all(is_whole(model, form, text) for text in fits)
    more = [f'{{{space}"a":null}}' for space in ("  ", "\n\n\n", "\n" + " " * 21, "\t")]
    assert not any(is_whole(model, form, text) for text in more)


def test_a_form_that_is_whole_ends_the_answer_without_another_step(model: Model) -> None:
    heard = list(events(model, Regex("abc")))
    ids = [info.token for e in heard if isinstance(e, Piece) for info in e.tokens]
    assert model.loaded.tokenizer.decode(ids) == "abc"
    assert said(model, Regex("abc"), endless=True) == ("abc", "stop")
    # Where more may come, only a token that ends an answer ends it.
    ends = model.loaded.tokenizer.eog
    assert said(model, Regex("a+"), bias=dict.fromkeys(ends, 1000.0)) == ("a", "stop")
    longer = said(model, Regex("a+"), bias=dict.fromkeys(ends, -1000.0), max_tokens=5)
    assert (set(longer[0]), longer[1]) == ({"a"}, "length")


def test_a_stop_string_inside_a_form_ends_it_as_any_answer(model: Model) -> None:
    form = Regex("a,b,c")
    assert said(model, form, stop=[","]) == ("a", "stop")
    assert said(model, form, max_tokens=2)[1] == "length"


def test_logprobs_stay_those_of_the_model(model: Model) -> None:
    form = list(events(model, Regex("abc"), logprobs=3))
    free = list(events(model, None, logprobs=3, max_tokens=1))
    first, plain = (
        next(i for e in heard if isinstance(e, Piece) for i in e.tokens) for heard in (form, free)
    )
    assert first.top == plain.top
    assert first.logprob is not None
    assert first.logprob <= plain.top[0].logprob


def test_an_answer_goes_on_in_its_form(model: Model) -> None:
    text, reason = said(model, JsonSchema(json.dumps(PERSON)), prefix='{"name": "Bo", "age"')
    whole = json.loads('{"name": "Bo", "age"' + text)
    assert (whole["name"], reason) == ("Bo", "stop")
    ids = model.loaded.tokenizer.encode('{"name": "B', add_special=False)
    text, _ = said(model, JsonSchema(json.dumps(PERSON)), prefix_tokens=ids)
    jsonschema.validate(json.loads(text), PERSON)
    with pytest.raises(BadForm, match="so far"):
        said(model, JsonSchema(json.dumps(PERSON)), prefix="[1")


def test_control_tokens_are_in_no_form(model: Model) -> None:
    tokenizer = model.loaded.tokenizer
    whatever = Constraint(model.loaded.form_words, constraint.grammar_of(Regex("(.|\n)*")))
    size = tokenizer.size + 7  # padded
    masked = whatever.masked(np.zeros(size, np.float32))
    for token in range(size):
        possible = masked[token] == 0
        if token >= tokenizer.size:
            assert not possible
        elif token in tokenizer.eog:
            assert possible
        elif (piece := tokenizer.piece(token)).isascii():
            assert possible == (piece != b""), token


REFUSED = {
    "not JSON": (JsonSchema("{"), "not JSON"),
    "a number": (JsonSchema("3"), "JSON object"),
    "too deep": (JsonSchema('{"items":' * 20_000 + "{}" + "}" * 20_000), "deep"),
    "deep": (JsonSchema('{"items":' * 400 + "{}" + "}" * 400), "recursion limit"),
    "keywords": (JsonSchema('{"type": "array", "uniqueItems": true}'), '"uniqueItems"'),
    "several": (JsonSchema('{"if": {"type": "null"}, "unevaluatedProperties": false}'), '"if"'),
    "lenient": (JsonSchema('{"x-guidance": {"lenient": true}, "uniqueItems": true}'), "x-guidance"),
    "format": (JsonSchema('{"type": "string", "format": "nonsense"}'), "nonsense"),
    "never": (JsonSchema("false"), "false"),
    "itself": (JsonSchema('{"$ref": "#"}'), "matches"),
    "elsewhere": (JsonSchema('{"$ref": "http://169.254.169.254/x"}'), "does not fetch"),
    "too long": (JsonSchema(json.dumps({"enum": ["x" * 300_000]})), "262144 at most"),
    "look-around": (Regex("(?=a)b"), "look-around"),
    "open": (Regex("a("), "regex"),
    "backslash": (Regex("\\"), "backslash"),
    "a third backslash": (Regex(r"a\\" + "\\"), "backslash"),
    "nested": (Regex("(" * 9000 + ")" * 9000), "regex"),
    "no start": (Grammar('a: "b"'), "start"),
    "no rule": (Grammar("start: b"), "b"),
    "nested grammar": (Grammar("start: " + "(" * 9000 + '"a"' + ")" * 9000), "nested"),
    "endless": (Grammar('root ::= "a" root', "gbnf"), "never ends"),
    "endless by turns": (Grammar('root ::= x+\nx ::= y | "a" y\ny ::= x', "gbnf"), "never ends"),
    "rules": (Grammar("".join(f'r{i} ::= "a"\n' for i in range(4001)), "gbnf"), "4001 rules"),
    "no GBNF": (Grammar("root = b", "gbnf"), "GBNF"),
    "nested GBNF": (Grammar("root ::= " + "(" * 9000 + '"a"' + ")" * 9000, "gbnf"), "GBNF"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_by_name_before_anything_is_computed(
    model: Model, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    form, part = REFUSED[name]
    monkeypatch.setattr(model.loaded.stepper, "start", None)
    with pytest.raises(BadForm) as error:
        said(model, form)
    assert part in str(error.value)
    assert len(str(error.value)) < 500
    assert "\n" not in str(error.value)


BRANCHES = [
    {"type": "object", "properties": {f"k{i}": {}}, "required": [f"k{i}"]} for i in range(3000)
]
HOSTILE = [
    JsonSchema(json.dumps({"anyOf": BRANCHES})),
    Regex("(a{1,1000}){1,1000}"),
    Regex("(x+x+)+y"),
    Regex("(a|b)*a(a|b){30}"),
    Regex("(.*a.{60})&(.*b.{60})"),
    JsonSchema('{"type": "string", "minLength": 100000}'),
    JsonSchema(
        '{"type": "array", "items": {"type": "array", "maxItems": 99999}, "minItems": 9999}'
    ),
    Grammar('start: a{1,100000}\na: b{1,100000}\nb: "x"{1,100000}'),
    Grammar('start: start | "a"'),
]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_catastrophic_ones_are_answered_or_told(model: Model, number: int) -> None:
    try:
        text, reason = said(model, HOSTILE[number], max_tokens=20)
    except CutawayError:
        return
    assert reason in ("stop", "length"), text


def test_what_takes_too_long_to_read_is_refused(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read for ever, and the answer ends all the same."""
    go_on = threading.Event()
    monkeypatch.setattr(guide, "LIMIT", 0.05)
    monkeypatch.setattr(guide, "Constraint", lambda *given: go_on.wait())
    model.loaded.form_words.made()
    with pytest.raises(BadForm, match="more than 0.05 s"):
        said(model, Regex("a"))
    go_on.set()


def test_who_waits_for_a_form_can_leave(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """The vocabulary is made for ever; the wait is told, and ends when it is cancelled."""
    go_on = threading.Event()
    monkeypatch.setattr(FormWords, "made", lambda words: go_on.wait())
    left = False
    request = Generate(1, prompt="a", form=Regex("a"))
    heard = generate(model.loaded, Sequenced(model.loaded.stepper), request, lambda: left)
    assert next(heard) == Progress(1, "form", 0, 0)
    left = True
    (end,) = heard
    assert isinstance(end, Finished)
    assert (end.reason, end.stats.n_generated) == ("cancelled", 0)
    go_on.set()


def test_a_form_that_fails_on_the_way_is_an_error(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, n = Constraint.take, 0

    def failing(self: Constraint, token: int) -> None:
        nonlocal n
        n += 1
        take(self, token)
        if n == 2:
            take(self, model.loaded.tokenizer.bos or 1)  # may never follow

    monkeypatch.setattr(Constraint, "take", failing)
    with pytest.raises(FormFailed, match="simpler schema"):
        said(model, JsonSchema(json.dumps(PERSON)))
    monkeypatch.undo()
    assert said(model, Regex("abc"))[0] == "abc"


def test_without_an_end_there_are_no_forms(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model.loaded.tokenizer, "eog", frozenset())
    with pytest.raises(BadForm, match="no token that ends"):
        FormWords(model.loaded.tokenizer).made()


def test_the_python_interface_takes_forms(model: Model) -> None:
    assert "".join(model.generate("abcd", form=Regex("abc"), max_tokens=9)) == "abc"
