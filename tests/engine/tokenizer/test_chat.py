"""Chat templates: llama.cpp's expectations, what templates may use, and what none may do."""

import json
import lzma
import os
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.errors import TemplateError
from engine.gguf.reader import open_gguf
from engine.runner.forms.tool_form import ToolForm
from engine.tokenizer import load_tokenizer, renderer
from engine.tokenizer.chat import ChatTemplate, load_chat_template
from engine.tokenizer.renderer import RENDERER, Renderer
from tests.engine.tokenizer.vocabs import byte_pairs, metadata

GOLDEN = Path(__file__).parents[2] / "goldens" / "chat_templates.json.xz"
GOLDENS: dict[str, Any] = json.loads(lzma.decompress(GOLDEN.read_bytes()))
CHAT = [{"role": "user", "content": "Hi"}]
LIMIT = "engine.tokenizer.renderer.RENDER_LIMIT"


@pytest.fixture(autouse=True)
def a_machine_of_any_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is bounded by something else than time must not run out of time first."""
    monkeypatch.setattr(LIMIT, 60.0)


def render(template: str, messages: list[dict[str, Any]] = CHAT, **variables: object) -> str:
    return ChatTemplate("file", template, "<s>", "</s>").render(messages, **variables)


@pytest.mark.parametrize("case", GOLDENS["cases"], ids=lambda case: case["name"][:30])
def test_prompts_equal_those_llama_cpp_expects(case: dict[str, Any]) -> None:
    template = ChatTemplate("file", case["template"], case["bos"], case["eos"])
    assert template.render(case["messages"]) == case["expected"]


# With tools two change a list in place, which the sandbox forbids, and one wants arguments as text.
REFUSE_TOOLS = {"Kimi-K2-Instruct", "Kimi-K2-Thinking", "meetkai-functionary-medium-v3.2"}


@pytest.mark.parametrize("name", GOLDENS["templates"])
def test_templates_render(name: str) -> None:
    plain, tools = GOLDENS["inputs"]
    template = ChatTemplate("file", GOLDENS["templates"][name], "<s>", "</s>")
    prompt = template.render(plain["messages"])
    assert plain["messages"][0]["content"] in prompt
    if name in REFUSE_TOOLS:
        with pytest.raises(TemplateError):
            template.render(tools["messages"], tools=tools["tools"])
    else:
        assert "Call a tool!" in template.render(tools["messages"], tools=tools["tools"])


USES = [
    ("{{ bos_token }}{{ eos_token }}", "<s></s>"),
    ("{% if add_generation_prompt %}+{% endif %}", "+"),
    ("{{ enable_thinking is defined }} {{ tools is defined }}", "False False"),
    ("{% for m in [1, 2, 3] %}{% if m == 2 %}{% continue %}{% endif %}{{ m }}{% endfor %}", "13"),
    ("{% for m in [1, 2, 3] %}{% if m == 2 %}{% break %}{% endif %}{{ m }}{% endfor %}", "1"),
    ("{{ {'a': '<b>&\u00e9'}|tojson }}", '{"a": "<b>&\u00e9"}'),
    ("{{ '\u00e9'|tojson(ensure_ascii=True) }}", '"\\u00e9"'),
    ("{{ {'b': 1, 'a': [2]}|tojson(indent=1) }}", '{\n "b": 1,\n "a": [\n  2\n ]\n}'),
    ("{{ {'b': 1, 'a': 2}|tojson(separators=(',', ':'), sort_keys=true) }}", '{"a":2,"b":1}'),
    ("{{ [1, 2]|map('string')|tojson }}{{ nobody|tojson }}", '["1", "2"]null'),
    ("{{ 'a' + nobody }}{{ messages[0].name }}", "a"),
    ("{% generation %}{{ messages[0].content }}{% endgeneration %}", "Hi"),
    ("{% set a = namespace(n=1) %}{% for i in [2] %}{% set a.n = i %}{% endfor %}{{ a.n }}", "2"),
    ("{% if true %}\n  a\n    {% endif %}\nb", "  a\nb"),
    ("{{ messages[0]['content'][::-1].upper().split('I') }}", "['', 'H']"),
]  # fmt: skip


@pytest.mark.parametrize(("template", "text"), USES)
def test_what_templates_use(template: str, text: str) -> None:
    assert render(template) == text


def test_variables_reach_the_template() -> None:
    template = "{{ enable_thinking }} {{ tools|length }} {{ add_generation_prompt }}"
    chat = ChatTemplate("file", template)
    assert chat.render(CHAT, False, enable_thinking=False, tools=[{}, {}]) == "False 2 False"


def test_the_date() -> None:
    before = datetime.now().strftime("%Y-%m-%d")
    shown = render("{{ strftime_now('%Y-%m-%d') }}")
    assert before <= shown <= datetime.now().strftime("%Y-%m-%d")


def test_every_character_passes() -> None:
    text = "\x00\r\n\u2028\u00e9\U0001f999 \ud83e \"'\\"
    assert render("{{ messages[0].content }}", [{"role": "user", "content": text}]) == text


def test_a_system_message_moves_where_the_template_has_no_place_for_it() -> None:
    chat = [{"role": "system", "content": "S"}, *CHAT]
    silent = "{% for m in messages if m.role == 'user' %}[{{ m.content }}]{% endfor %}"
    refusing = (
        "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + silent
    )
    assert render(silent, chat) == render(refusing, chat) == "[S\nHi]"
    assert render("{% for m in messages %}[{{ m.content }}]{% endfor %}", chat) == "[S][Hi]"


def test_where_the_template_comes_from() -> None:
    base = byte_pairs([], ["<s>", "<|im_start|>"], bos_token_id=256)
    none = load_chat_template(base, load_tokenizer(base))
    assert (none.source, none.render(CHAT)) == ("none", "Hi")

    bare = byte_pairs([], ["<|im_start|>", "<|im_end|>"])
    chatml = load_chat_template(bare, load_tokenizer(bare))
    assert chatml.source == "chatml"
    turn = "<|im_start|>user\nHi<|im_end|>\n"
    assert chatml.render(CHAT) == turn + "<|im_start|>assistant\n"
    assert chatml.render(CHAT, add_generation_prompt=False) == turn


def test_templates_of_a_file() -> None:
    meta = metadata(
        {"tokenizer.chat_template": "{{ bos_token }}own", "tokenizer.chat_template.b": "B"}
    )
    tokenizer = load_tokenizer(byte_pairs([], ["<s>"], bos_token_id=256))
    own = load_chat_template(meta, tokenizer)
    assert (own.source, own.names, own.render(CHAT)) == ("file", ("b",), "<s>own")
    assert load_chat_template(meta, tokenizer, "b").render(CHAT) == "B"
    with pytest.raises(TemplateError, match="no chat template 'c'; there are b"):
        load_chat_template(meta, tokenizer, "c")
    named = load_chat_template(metadata({"tokenizer.chat_template": "rwkv-world"}), tokenizer)
    chat = [{"role": "system", "content": " S\n"}, *CHAT, {"role": "assistant", "content": "Yo"}]
    want = "System: S\n\nUser: Hi\n\nAssistant: Yo\n\nUser: Hi\n\nAssistant:"
    assert named.render([*chat, *CHAT]) == want  # as llama.cpp's of that name


@pytest.mark.model_file
def test_the_real_models(smollm2_path: Path, gemma3_path: Path) -> None:
    meta = open_gguf(smollm2_path).metadata
    tokenizer = load_tokenizer(meta)
    template = load_chat_template(meta, tokenizer)
    assert template.source == "file"
    prompt = template.render(CHAT)
    assert prompt.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert tokenizer.encode_prompt(prompt)[-6:] == [2, 198, 1, 520, 9531, 198]
    meta = open_gguf(gemma3_path).metadata
    assert load_chat_template(meta, load_tokenizer(meta)).source == "none"


WRONG = [
    ("{{ raise_exception('roles\nmust alternate') }}", "roles must alternate"),
    ("{% if %}", "line 1: Expected an expression"),
    ("{{ nobody.name }}", "'nobody' is undefined"),
    ("{{ nobody + 1 }}", "'nobody' is undefined"),
    ("{{ 1 / 0 }}", "ZeroDivisionError"),
    ("{% break %}", "outside loop"),
]

HOSTILE = [
    ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "1.2 s"),
    ("{{ 'a' * 10**9 }}", "memory"),
    ("{{ [1] * 10**9 }}", "memory"),
    ("{% set n = namespace(s='ab') %}{% for i in range(64) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
     "memory"),
    ("{{ '%1000000000d' % 1 }}", "memory"),
    ("{{ '{:1000000000d}'.format(1) }}", "memory"),
    ("{{ 'a'|center(10**9) }}", "memory"),
    ("{{ messages|tojson(indent=10**9) }}", "memory"),
    ("{{ ().__class__ }}", "'__class__' of a tuple is unsafe"),
    ("{{ ''['__class__'] }}", "'__class__' of a str is unsafe"),
    ("{{ ''|attr('__class__') }}", "'__class__' of a str is unsafe"),
    ("{{ '{0.__class__}'.format(1) }}", "unsafe"),
    ("{{ cycler.__init__.__globals__ }}", "unsafe"),
    ("{{ messages.append(1) }}", "unsafe"),
    ("{{ range(10**12)|list }}", "Range too big"),
    ("{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}", "too deeply"),
    ("{% for x in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}", "too deeply"),
    ("{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}", "too deeply"),
    ("{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}", "more than 8 MiB"),
    ("{{ 9 ** (9 ** 9) }}", "1.2 s"),
]  # fmt: skip


@pytest.mark.full_cases(r"1\.2 s")
@pytest.mark.parametrize(("template", "cause"), WRONG + HOSTILE, ids=lambda text: text[:30])
def test_bad_templates_end_in_one_line(
    template: str, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cause == "1.2 s":
        monkeypatch.setattr(LIMIT, 1.2)
    with pytest.raises(TemplateError) as caught:
        render(template)  # some would never end
    assert cause in str(caught.value)
    monkeypatch.setattr(LIMIT, 60.0)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
    assert render("still {{ 'here' }}") == "still here"


def test_memory_is_bounded() -> None:
    renderer = Renderer()
    try:
        with pytest.raises(TemplateError, match="memory"):
            renderer.render("{% set a = 'x' * n %}{{ (a ~ a ~ a)|length }}", {"n": 10**8})
        assert renderer.process is not None
        status = Path(f"/proc/{renderer.process.pid}/status").read_text()
        peak = int(status.split("VmHWM:")[1].split()[0])
        assert peak < 400 << 10  # KiB
    finally:
        renderer.close()


def test_variables_that_are_no_data_are_refused() -> None:
    with pytest.raises(TemplateError, match="cannot be passed"):
        render("x", thing=object())


def test_a_process_that_was_killed_is_replaced() -> None:
    render("x")
    assert RENDERER.process is not None
    RENDERER.process.kill()
    RENDERER.process.wait()
    assert render("y") == "y"


def test_a_template_that_loops_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chat needs it rendered for each role, and for tools: one limit holds for all of that."""
    monkeypatch.setattr(LIMIT, 0.3)
    rendered = 0
    exchange = renderer.exchange

    def counted(process: Any, request: bytes, limit: float) -> bytes | None:
        nonlocal rendered
        rendered += request != b""
        return exchange(process, request, limit)

    monkeypatch.setattr(renderer, "exchange", counted)
    template = ChatTemplate("file", "{{ 9 ** (9 ** 9) }}", "<s>", "</s>")
    for chat in (CHAT, [{"role": "system", "content": "brief"}, *CHAT]):
        with pytest.raises(TemplateError, match="not rendered within"):
            template.render(chat)
    assert not ToolForm(template).tools
    assert rendered == 1
    monkeypatch.setattr("engine.tokenizer.chat.SLOW_SECONDS", 0.0)
    template.tried_again = 0.0
    with pytest.raises(TemplateError, match="not rendered within"):
        template.render(CHAT)
    assert rendered > 1


def test_a_process_started_ahead_renders() -> None:
    renderer = Renderer()
    try:
        renderer.start()
        process = renderer.process
        assert renderer.render("x", {}) == "x"
        assert renderer.process is process
        assert process is not None
        process.kill()
        process.wait()
        renderer.start()
        assert renderer.render("y", {}) == "y"
    finally:
        renderer.close()


PARENT = """
import sys
from engine.tokenizer.renderer import RENDERER
RENDERER.render("x", {})
print(RENDERER.process.pid, flush=True)
if sys.argv[1] == "busy":
    import engine.tokenizer.renderer as renderer
    renderer.RENDER_LIMIT = 60
    RENDERER.render("{{ 9 ** (9 ** 9) }}", {})
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["leave", "idle", "busy"])
def test_no_process_is_left_behind(how: str) -> None:
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        child = psutil.Process(int(parent.stdout.readline()))
        if how == "leave":
            parent.stdin.close()
            parent.wait(60)
        else:
            time.sleep(0.2)
            os.kill(parent.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        gone, _ = psutil.wait_procs([child], timeout=60)
        assert gone


def test_closing_ends_the_process() -> None:
    renderer = Renderer()
    renderer.render("x", {})
    assert renderer.process is not None
    child = psutil.Process(renderer.process.pid)
    renderer.close()
    assert not child.is_running()
    renderer.close()
