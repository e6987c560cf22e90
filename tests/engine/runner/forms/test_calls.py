"""Tools that must be called, or may: whatever the model would say, its arguments fit the schema."""

import json
import lzma
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from engine.answers.forms import MARKS, form_of
from engine.answers.reader import read
from engine.errors import BadSetting
from engine.protocol import ChatMessage, Finished, Generate, Piece, Sampling, Tool, Tools
from engine.runner.api import Model
from engine.runner.forms.call_grammar import style_of
from engine.runner.generate import generate
from engine.runner.sequence import Sequenced
from engine.sampling.constraint import BadForm
from engine.tokenizer import ChatTemplate
from engine.tokenizer.vocab import _EOG_TEXTS
from tests.engine.runner.forms.test_apart import HERMES, model_of

FOLDER = Path(__file__).parents[3] / "goldens"
TEMPLATES = json.loads(lzma.decompress((FOLDER / "chat_templates.json.xz").read_bytes()))[
    "templates"
]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 5}, "days": {"enum": [1, 2, 3]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOLS = [
    Tool("weather", "", json.dumps(SCHEMA)),
    Tool("now", "", '{"type": "object", "additionalProperties": false}'),
]
LLAMA = (
    "{% for t in tools %}{{ t|tojson }}{% endfor %}{% for m in messages %}{{ m.role }}: "
    "{{ m.content }}{% for c in m.tool_calls %}"
    '{"name": "{{ c.function.name }}", "parameters": {{ c.function.arguments|tojson }}}'
    "{% endfor %}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
)
MISTRAL = LLAMA.replace(
    '{"name": "{{ c.function.name }}", "parameters"',
    '[TOOL_CALLS][{"name": "{{ c.function.name }}", "arguments"',
).replace("tojson }}}", 'tojson }}, "id": "{{ c.id }}"}]')
PLAIN = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
FAMILIES = {"hermes": HERMES, "llama": LLAMA, "mistral": MISTRAL, "plain": PLAIN}


@pytest.fixture(scope="module", params=FAMILIES)
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Model]:
    yield from model_of(tmp_path_factory, FAMILIES[request.param])


def called(model: Model, tools: Tools, **changes: object) -> tuple[list[tuple[str, str]], str, str]:
    """Names with arguments, the text beside them, and why it ended."""
    given = {
        "messages": [ChatMessage("user", "?")],
        "sampling": Sampling(temperature=1.3, seed=1),
        "max_tokens": 300,
        "tools": tools,
        "apart": True,
        **changes,
    }
    request = Generate(1, **given)
    heard = list(generate(model.loaded, Sequenced(model.loaded.stepper), request, lambda: False))
    end = heard[-1]
    assert isinstance(end, Finished)
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    text = ""
    for piece in heard:
        if isinstance(piece, Piece) and piece.call:
            part = piece.call
            names[part.index] = names.get(part.index, "") + part.name
            arguments[part.index] = arguments.get(part.index, "") + part.arguments
        elif isinstance(piece, Piece):
            text += piece.text
    return [(names[i], arguments[i]) for i in names], text, end.reason


def fits(calls: list[tuple[str, str]]) -> None:
    schemas = {tool.name: json.loads(tool.parameters) for tool in TOOLS}
    for name, arguments in calls:
        jsonschema.validate(json.loads(arguments), schemas[name])


@pytest.mark.each_value
@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.full)])
def test_a_tool_that_must_be_called_is(model: Model, seed: int) -> None:
    sampling = Sampling(temperature=1.3, seed=seed)
    calls, text, reason = called(model, Tools(TOOLS, "required", several=False), sampling=sampling)
    assert (len(calls), text, reason) == (1, "", "calls")
    fits(calls)
    calls, text, reason = called(
        model, Tools(TOOLS, only="weather", several=False), sampling=sampling
    )
    assert ([name for name, _ in calls], text, reason) == (["weather"], "", "calls")
    fits(calls)


@pytest.mark.sampled(2)
def test_where_a_call_has_begun_it_is_one(model: Model) -> None:
    """The model may call: a mark of its own begins a call, which then fits its schema."""
    template = model.loaded.template
    style = style_of(template, model.loaded.tokenizer)
    begun = style.trigger(template.text) if style else '{"name": "'
    calls, _, reason = called(model, Tools(TOOLS, several=False), prefix=begun)
    assert (len(calls), reason) == (1, "calls")
    fits([(calls[0][0], calls[0][1])])


def test_free_text_stays_free(model: Model) -> None:
    bias = {model.loaded.tokenizer.id("x"): 60.0}
    calls, text, reason = called(model, Tools(TOOLS), bias=bias, max_tokens=5)
    assert (calls, text, reason) == ([], "xxxxx", "length")


def test_what_cannot_be_called_is_refused(model: Model) -> None:
    with pytest.raises(BadSetting, match="'weather', 'now'"):
        called(model, Tools(TOOLS, only="other"))
    odd = [Tool("f", "", '{"type": "object", "uniqueItems": true, "not": {}}')]
    with pytest.raises(BadForm, match="uniqueItems"):
        called(model, Tools(odd, "required"))
    called(model, Tools(odd), max_tokens=2)  # may be called: the rest of the schema holds


def test_styles_of_families(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derived from templates; what is derived is read as the call that it is."""
    monkeypatch.setattr("engine.tokenizer.renderer.RENDER_LIMIT", 60.0)  # a machine of any speed

    class Words:
        eog = range(len(_EOG_TEXTS))

        def text(self, token: int) -> str:
            return _EOG_TEXTS[token]

    found = {}
    for name, text in TEMPLATES.items():
        template = ChatTemplate("file", text, "<s>", "</s>")
        style = style_of(template, Words())
        if style is None:
            continue
        found[name] = style
        rest = f"{style.separator}now{style.between}{{}}" if style.separator else ""
        said = f'{style.before}f{style.between}{{"a": [1]}}{rest}{style.after}'
        calls = [part.call for part in read(said, form_of(text))[0]]
        assert [c.name for c in calls if c] == (["f", "now"] if rest else ["f"]), said
        assert style.trigger(text) in style.before
    assert len(found) >= 26, sorted(found)
    assert found["Qwen-Qwen3-0.6B"].separator == '}\n</tool_call>\n<tool_call>\n{"name": "'
    assert {"openai-gpt-oss-120b", "meta-llama-Llama-3.1-8B-Instruct"} <= found.keys()
    assert "<tool_call>" in MARKS
